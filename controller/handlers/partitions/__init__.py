"""Partition and replica state transitions, leader elections, ISR changes."""
