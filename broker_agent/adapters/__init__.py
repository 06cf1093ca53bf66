"""Where the agent touches gRPC; nothing is decided here."""
