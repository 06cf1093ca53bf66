"""Transitions of partitions and replicas, elections, ISR changes."""
