"""Moving partitions to other replicas."""
