"""OffsetDeleteRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class OffsetDeleteRequestPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteRequest"

    partition_index: int = 0


class OffsetDeleteRequestTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteRequest"

    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


class OffsetDeleteRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteRequest"

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()
