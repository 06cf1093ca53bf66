"""OffsetForLeaderEpochResponse, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class EpochEndOffset(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetForLeaderEpochResponse"

    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1  # 1+
    end_offset: int = -1


class OffsetForLeaderTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetForLeaderEpochResponse"

    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetForLeaderEpochResponse"

    throttle_time_ms: int = 0  # 2+
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()
