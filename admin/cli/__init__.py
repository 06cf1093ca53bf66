"""The verbs of the command line that speak gRPC."""
