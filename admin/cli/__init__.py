"""The verbs of `klamm` that talk to a cluster: one file per noun. Results go to stdout, messages to stderr.

Modules here are imported at every start of the command, so what is heavy (gRPC, record batches, tables) is
imported in the functions that need it.
"""
