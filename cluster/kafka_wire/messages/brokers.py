"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: AllocateProducerIdsRequest 0, AllocateProducerIdsResponse 0, AlterPartitionRequest 0-3,
AlterPartitionResponse 0-3, ControlledShutdownRequest 0-3, ControlledShutdownResponse 0-3, UpdateFeaturesRequest 0-1,
UpdateFeaturesResponse 0-1.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message
from cluster.model.broker import ZERO_TOPIC_ID, TopicId


class AllocateProducerIdsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AllocateProducerIdsRequest"

    broker_id: int = 0
    broker_epoch: int = -1


class AllocateProducerIdsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AllocateProducerIdsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0


class BrokerState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionRequest"

    broker_id: int = 0  # 3+
    broker_epoch: int = -1  # 3+


class AlterPartitionRequestPartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionRequest"

    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: tuple[int, ...] = ()  # 0-2
    new_isr_with_epochs: tuple[BrokerState, ...] = ()  # 3+
    leader_recovery_state: int = 0  # 1+
    partition_epoch: int = 0


class AlterPartitionRequestTopicData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionRequest"

    topic_name: str = ""  # 0-1
    topic_id: TopicId = ZERO_TOPIC_ID  # 2+
    partitions: tuple[AlterPartitionRequestPartitionData, ...] = ()


class AlterPartitionRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionRequest"

    broker_id: int = 0
    broker_epoch: int = -1
    topics: tuple[AlterPartitionRequestTopicData, ...] = ()


class AlterPartitionResponsePartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionResponse"

    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0  # 1+
    partition_epoch: int = 0


class AlterPartitionResponseTopicData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionResponse"

    topic_name: str = ""  # 0-1
    topic_id: TopicId = ZERO_TOPIC_ID  # 2+
    partitions: tuple[AlterPartitionResponsePartitionData, ...] = ()


class AlterPartitionResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterPartitionResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: tuple[AlterPartitionResponseTopicData, ...] = ()


class ControlledShutdownRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ControlledShutdownRequest"

    broker_id: int = 0
    broker_epoch: int = -1  # 2+


class RemainingPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ControlledShutdownResponse"

    topic_name: str = ""
    partition_index: int = 0


class ControlledShutdownResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ControlledShutdownResponse"

    error_code: int = 0
    remaining_partitions: tuple[RemainingPartition, ...] = ()


class FeatureUpdateKey(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateFeaturesRequest"

    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False  # 0
    upgrade_type: int = 1  # 1+


class UpdateFeaturesRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateFeaturesRequest"

    timeout_ms: int = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: bool = False  # 1+


class UpdatableFeatureResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateFeaturesResponse"

    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""


class UpdateFeaturesResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateFeaturesResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: tuple[UpdatableFeatureResult, ...] = ()
