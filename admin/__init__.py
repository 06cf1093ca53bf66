"""Client library and command line; both speak only gRPC."""
