"""SyncGroupResponse, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class SyncGroupResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SyncGroupResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0
    protocol_type: str | None = None  # 5+
    protocol_name: str | None = None  # 5+
    assignment: bytes = b""
