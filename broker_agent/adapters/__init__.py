"""gRPC adapters of the agent; they make no decisions."""
