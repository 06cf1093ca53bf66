"""OffsetFetchRequest, versions 0-9. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class OffsetFetchRequestTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchRequest"

    name: str = ""  # 0-7
    partition_indexes: tuple[int, ...] = ()  # 0-7


class OffsetFetchRequestTopics(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchRequest"

    name: str = ""  # 8+
    partition_indexes: tuple[int, ...] = ()  # 8+


class OffsetFetchRequestGroup(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchRequest"

    group_id: str = ""  # 8+
    member_id: str | None = None  # 9+
    member_epoch: int = -1  # 9+
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()  # 8+


class OffsetFetchRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchRequest"

    group_id: str = ""  # 0-7
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()  # 0-7
    groups: tuple[OffsetFetchRequestGroup, ...] = ()  # 8+
    require_stable: bool = False  # 7+
