"""Recovery after ZooKeeper was restored from a backup."""
