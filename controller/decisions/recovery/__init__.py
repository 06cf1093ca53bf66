"""Recovery after ZooKeeper was restored from a backup: what brokers know, and what to write from it."""
