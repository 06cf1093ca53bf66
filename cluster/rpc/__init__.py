"""gRPC: the codec between generated messages and domain types, client, server, channel options."""
