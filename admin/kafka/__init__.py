"""Requests to the brokers of Apache Kafka."""
