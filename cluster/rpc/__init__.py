"""Speaks gRPC: the codec between generated messages and domain types, the client, the servers and their admission."""
