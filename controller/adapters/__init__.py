"""Adapters of the controller to the network: gRPC, and Kafka's protocol. They make no decisions."""
