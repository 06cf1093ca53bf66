"""JoinGroupResponse, versions 0-9. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class JoinGroupResponseMember(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "JoinGroupResponse"

    member_id: str = ""
    group_instance_id: str | None = None  # 5+
    metadata: bytes = b""


class JoinGroupResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "JoinGroupResponse"

    throttle_time_ms: int = 0  # 2+
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None  # 7+
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False  # 9+
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
