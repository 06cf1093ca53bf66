"""OffsetForLeaderEpochRequest, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class OffsetForLeaderPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetForLeaderEpochRequest"

    partition: int = 0
    current_leader_epoch: int = -1  # 2+
    leader_epoch: int = 0


class OffsetForLeaderTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetForLeaderEpochRequest"

    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetForLeaderEpochRequest"

    replica_id: int = -2  # 3+
    topics: tuple[OffsetForLeaderTopic, ...] = ()
