"""OffsetFetchResponse, versions 0-9. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class OffsetFetchResponsePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    partition_index: int = 0  # 0-7
    committed_offset: int = 0  # 0-7
    committed_leader_epoch: int = -1  # 5-7
    metadata: str | None = ""  # 0-7
    error_code: int = 0  # 0-7


class OffsetFetchResponseTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    name: str = ""  # 0-7
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()  # 0-7


class OffsetFetchResponsePartitions(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    partition_index: int = 0  # 8+
    committed_offset: int = 0  # 8+
    committed_leader_epoch: int = -1  # 8+
    metadata: str | None = ""  # 8+
    error_code: int = 0  # 8+


class OffsetFetchResponseTopics(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    name: str = ""  # 8+
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()  # 8+


class OffsetFetchResponseGroup(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    group_id: str = ""  # 8+
    topics: tuple[OffsetFetchResponseTopics, ...] = ()  # 8+
    error_code: int = 0  # 8+


class OffsetFetchResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    throttle_time_ms: int = 0  # 3+
    topics: tuple[OffsetFetchResponseTopic, ...] = ()  # 0-7
    error_code: int = 0  # 2-7
    groups: tuple[OffsetFetchResponseGroup, ...] = ()  # 8+
