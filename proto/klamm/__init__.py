"""What klamm has for other programs, `klamm.v1`: the messages and stubs of its gRPC services.

Everything else is an application, which begins at `klamm.entry`; its packages are nobody's to import.
"""
