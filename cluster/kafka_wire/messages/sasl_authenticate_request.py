"""SaslAuthenticateRequest, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class SaslAuthenticateRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SaslAuthenticateRequest"

    auth_bytes: bytes = b""
