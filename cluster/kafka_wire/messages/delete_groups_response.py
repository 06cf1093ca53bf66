"""DeleteGroupsResponse, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DeletableGroupResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteGroupsResponse"

    group_id: str = ""
    error_code: int = 0


class DeleteGroupsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteGroupsResponse"

    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...] = ()
