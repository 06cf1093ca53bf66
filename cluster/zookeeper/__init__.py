"""The ZooKeeper port and its kazoo adapter."""
