"""AlterPartitionResponse, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class PartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionResponse"

    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0  # 1+
    partition_epoch: int = 0


class TopicData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionResponse"

    topic_name: str = ""  # 0-1
    topic_id: TopicId = ZERO_TOPIC_ID  # 2+
    partitions: tuple[PartitionData, ...] = ()


class AlterPartitionResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: tuple[TopicData, ...] = ()
