"""LeaveGroupRequest, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class MemberIdentity(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaveGroupRequest"

    member_id: str = ""  # 3+
    group_instance_id: str | None = None  # 3+
    reason: str | None = None  # 5+


class LeaveGroupRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaveGroupRequest"

    group_id: str = ""
    member_id: str = ""  # 0-2
    members: tuple[MemberIdentity, ...] = ()  # 3+
