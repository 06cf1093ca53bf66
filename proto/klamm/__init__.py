"""What klamm has for other programs, `klamm.v1`: the messages and stubs of its gRPC services."""
