"""Kafka's protocol: control requests to brokers of Apache Kafka, and the listeners where they and their clients ask."""
