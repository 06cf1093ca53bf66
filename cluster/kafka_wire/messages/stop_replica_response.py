"""StopReplicaResponse, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class StopReplicaPartitionError(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaResponse"

    topic_name: str = ""
    partition_index: int = 0
    error_code: int = 0


class StopReplicaResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaResponse"

    error_code: int = 0
    partition_errors: tuple[StopReplicaPartitionError, ...] = ()
