"""TLS for every port and every peer: Kafka's `ssl.*` settings, the keys and certificates they name, and what libraries
take of them.

`settings` says what is configured, `stores` reads PEM and PKCS12, `material` checks what was read, `live` replaces it
when its files change, `contexts` makes contexts for Python's sockets; gRPC's credentials are in `cluster/rpc`.
`authority` makes certificates for development.
"""
