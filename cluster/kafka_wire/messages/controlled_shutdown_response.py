"""ControlledShutdownResponse, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class RemainingPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ControlledShutdownResponse"

    topic_name: str = ""
    partition_index: int = 0


class ControlledShutdownResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ControlledShutdownResponse"

    error_code: int = 0
    remaining_partitions: tuple[RemainingPartition, ...] = ()
