"""The controller: elected through ZooKeeper, it decides, writes, applies and tells (ARCHITECTURE.md)."""
