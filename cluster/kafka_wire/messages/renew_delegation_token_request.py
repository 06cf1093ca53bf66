"""RenewDelegationTokenRequest, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class RenewDelegationTokenRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "RenewDelegationTokenRequest"

    hmac: bytes = b""
    renew_period_ms: int = 0
