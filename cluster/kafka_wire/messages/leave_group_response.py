"""LeaveGroupResponse, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class MemberResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaveGroupResponse"

    member_id: str = ""  # 3+
    group_instance_id: str | None = ""  # 3+
    error_code: int = 0  # 3+


class LeaveGroupResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaveGroupResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0
    members: tuple[MemberResponse, ...] = ()  # 3+
