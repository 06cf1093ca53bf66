"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: SaslAuthenticateRequest 0-2, SaslAuthenticateResponse 0-2, SaslHandshakeRequest 0-1,
SaslHandshakeResponse 0-1.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class SaslAuthenticateRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SaslAuthenticateRequest"

    auth_bytes: bytes = b""


class SaslAuthenticateResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SaslAuthenticateResponse"

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0  # 1+


class SaslHandshakeRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SaslHandshakeRequest"

    mechanism: str = ""


class SaslHandshakeResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SaslHandshakeResponse"

    error_code: int = 0
    mechanisms: tuple[str, ...] = ()
