"""SASL: how users prove who they are, and how a client does it. Messages are bytes; nothing here knows a network.

Mechanisms: SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, by `scramp`), PLAIN (RFC 4616), OAUTHBEARER (RFC 7628, by PyJWT).
"""
