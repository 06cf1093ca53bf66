"""OffsetCommitResponse, versions 0-9. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class OffsetCommitResponsePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetCommitResponse"

    partition_index: int = 0
    error_code: int = 0


class OffsetCommitResponseTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetCommitResponse"

    name: str = ""
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetCommitResponse"

    throttle_time_ms: int = 0  # 3+
    topics: tuple[OffsetCommitResponseTopic, ...] = ()
