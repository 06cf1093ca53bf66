"""ListPartitionReassignmentsResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class OngoingPartitionReassignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsResponse"

    partition_index: int = 0
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class OngoingTopicReassignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsResponse"

    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListPartitionReassignmentsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()
