"""Client library, command line and web console; all of them speak only gRPC."""
