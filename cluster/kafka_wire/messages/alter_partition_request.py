"""AlterPartitionRequest, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class BrokerState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionRequest"

    broker_id: int = 0  # 3+
    broker_epoch: int = -1  # 3+


class PartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionRequest"

    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: tuple[int, ...] = ()  # 0-2
    new_isr_with_epochs: tuple[BrokerState, ...] = ()  # 3+
    leader_recovery_state: int = 0  # 1+
    partition_epoch: int = 0


class TopicData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionRequest"

    topic_name: str = ""  # 0-1
    topic_id: TopicId = ZERO_TOPIC_ID  # 2+
    partitions: tuple[PartitionData, ...] = ()


class AlterPartitionRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionRequest"

    broker_id: int = 0
    broker_epoch: int = -1
    topics: tuple[TopicData, ...] = ()
