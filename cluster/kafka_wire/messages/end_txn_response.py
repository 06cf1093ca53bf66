"""EndTxnResponse, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class EndTxnResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "EndTxnResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
