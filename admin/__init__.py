"""Client library and command line; both speak only gRPC.

`connection` finds nodes and the active controller, `client` says what can be asked of it. On `topology`, who leads
what, stand `producer`, `consumer` and `record_deletion`. `cli/` is what people see of it.
"""
