"""Broker startup, failure, controlled shutdown, notifications of brokers, and producer id blocks."""
