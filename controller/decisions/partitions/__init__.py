"""Leader elections, ISR changes, partition and replica state transitions."""
