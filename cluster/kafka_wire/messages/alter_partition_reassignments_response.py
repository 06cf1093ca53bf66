"""AlterPartitionReassignmentsResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ReassignablePartitionResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsResponse"

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""


class ReassignableTopicResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsResponse"

    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionReassignmentsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()
