"""Leaders, ISRs, and the states of partitions and replicas."""
