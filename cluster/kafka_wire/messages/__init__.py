"""The messages of Kafka's protocol, a module for each. Made by cluster/kafka_wire/make_messages.py; do not edit."""
