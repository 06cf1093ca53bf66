"""The embedded cluster: real ZooKeeper and real processes on this machine."""
