"""DescribeGroupsResponse, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribedGroupMember(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeGroupsResponse"

    member_id: str = ""
    group_instance_id: str | None = None  # 4+
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeGroupsResponse"

    error_code: int = 0
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: int = -2147483648  # 3+


class DescribeGroupsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeGroupsResponse"

    throttle_time_ms: int = 0  # 1+
    groups: tuple[DescribedGroup, ...] = ()
