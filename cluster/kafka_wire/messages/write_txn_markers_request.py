"""WriteTxnMarkersRequest, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class WritableTxnMarkerTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "WriteTxnMarkersRequest"

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class WritableTxnMarker(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "WriteTxnMarkersRequest"

    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: int = 0


class WriteTxnMarkersRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "WriteTxnMarkersRequest"

    markers: tuple[WritableTxnMarker, ...] = ()
