"""Where the controller touches gRPC; nothing is decided here."""
