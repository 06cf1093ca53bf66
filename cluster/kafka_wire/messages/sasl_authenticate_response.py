"""SaslAuthenticateResponse, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class SaslAuthenticateResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SaslAuthenticateResponse"

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0  # 1+
