"""OffsetDeleteResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class OffsetDeleteResponsePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteResponse"

    partition_index: int = 0
    error_code: int = 0


class OffsetDeleteResponseTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteResponse"

    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteResponse"

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
