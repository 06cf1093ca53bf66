"""AlterReplicaLogDirsResponse, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AlterReplicaLogDirPartitionResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterReplicaLogDirsResponse"

    partition_index: int = 0
    error_code: int = 0


class AlterReplicaLogDirTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterReplicaLogDirsResponse"

    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


class AlterReplicaLogDirsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterReplicaLogDirsResponse"

    throttle_time_ms: int = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()
