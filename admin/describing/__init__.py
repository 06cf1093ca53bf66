"""What commands show of a cluster: health, topology, load, replicas, access lists."""
