"""ListPartitionReassignmentsRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ListPartitionReassignmentsTopics(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsRequest"

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class ListPartitionReassignmentsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsRequest"

    timeout_ms: int = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None
