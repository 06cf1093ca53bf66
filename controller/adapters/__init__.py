"""gRPC adapters of the controller; they make no decisions."""
