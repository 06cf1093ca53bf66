"""Brokers that come, go, shut down or report something, and the producer ids that they ask for."""
