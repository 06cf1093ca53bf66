"""SyncGroupRequest, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class SyncGroupRequestAssignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SyncGroupRequest"

    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SyncGroupRequest"

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # 3+
    protocol_type: str | None = None  # 5+
    protocol_name: str | None = None  # 5+
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()
