"""TxnOffsetCommitRequest, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class TxnOffsetCommitRequestPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "TxnOffsetCommitRequest"

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1  # 2+
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "TxnOffsetCommitRequest"

    name: str = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


class TxnOffsetCommitRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "TxnOffsetCommitRequest"

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1  # 3+
    member_id: str = ""  # 3+
    group_instance_id: str | None = None  # 3+
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()
