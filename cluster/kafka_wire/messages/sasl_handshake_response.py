"""SaslHandshakeResponse, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class SaslHandshakeResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SaslHandshakeResponse"

    error_code: int = 0
    mechanisms: tuple[str, ...] = ()
