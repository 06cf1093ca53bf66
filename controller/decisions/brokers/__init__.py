"""Brokers that come, go, shut down or lose a log directory, and the producer ids that they hand out."""
