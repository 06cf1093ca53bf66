"""ListGroupsResponse, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ListedGroup(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListGroupsResponse"

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""  # 4+
    group_type: str = ""  # 5+


class ListGroupsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListGroupsResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0
    groups: tuple[ListedGroup, ...] = ()
