"""OffsetCommitRequest, versions 0-9. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class OffsetCommitRequestPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetCommitRequest"

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1  # 6+
    commit_timestamp: int = -1  # 1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetCommitRequest"

    name: str = ""
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetCommitRequest"

    group_id: str = ""
    generation_id_or_member_epoch: int = -1  # 1+
    member_id: str = ""  # 1+
    group_instance_id: str | None = None  # 7+
    retention_time_ms: int = -1  # 2-4
    topics: tuple[OffsetCommitRequestTopic, ...] = ()
