"""RenewDelegationTokenResponse, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class RenewDelegationTokenResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "RenewDelegationTokenResponse"

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0
