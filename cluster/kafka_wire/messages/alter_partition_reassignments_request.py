"""AlterPartitionReassignmentsRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ReassignablePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsRequest"

    partition_index: int = 0
    replicas: tuple[int, ...] | None = None


class ReassignableTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsRequest"

    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsRequest"

    timeout_ms: int = 60000
    topics: tuple[ReassignableTopic, ...] = ()
