"""Holds the client library and the command line; both speak only gRPC.

`connection` finds nodes and the active controller, and `client` has a method for each request to it. `topology` knows
who leads each partition; `producer`, `consumer` and `record_deletion` use it. `cli/` is the command line.
"""
