"""TxnOffsetCommitResponse, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class TxnOffsetCommitResponsePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "TxnOffsetCommitResponse"

    partition_index: int = 0
    error_code: int = 0


class TxnOffsetCommitResponseTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "TxnOffsetCommitResponse"

    name: str = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


class TxnOffsetCommitResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "TxnOffsetCommitResponse"

    throttle_time_ms: int = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()
