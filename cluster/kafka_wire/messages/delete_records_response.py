"""DeleteRecordsResponse, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DeleteRecordsPartitionResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsResponse"

    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


class DeleteRecordsTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsResponse"

    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsResponse"

    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()
