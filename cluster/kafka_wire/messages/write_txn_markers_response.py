"""WriteTxnMarkersResponse, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class WritableTxnMarkerPartitionResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "WriteTxnMarkersResponse"

    partition_index: int = 0
    error_code: int = 0


class WritableTxnMarkerTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "WriteTxnMarkersResponse"

    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


class WritableTxnMarkerResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "WriteTxnMarkersResponse"

    producer_id: int = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


class WriteTxnMarkersResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "WriteTxnMarkersResponse"

    markers: tuple[WritableTxnMarkerResult, ...] = ()
