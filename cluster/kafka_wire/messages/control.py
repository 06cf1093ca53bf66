"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: LeaderAndIsrRequest 0-7, LeaderAndIsrResponse 0-7, StopReplicaRequest 0-4,
StopReplicaResponse 0-4, UpdateMetadataRequest 0-8, UpdateMetadataResponse 0-8.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message
from cluster.model.broker import ZERO_TOPIC_ID, TopicId


class LeaderAndIsrPartitionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrRequest"

    topic_name: str = ""  # 0-1
    partition_index: int = 0
    controller_epoch: int = 0
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = 0
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()  # 3+
    removing_replicas: tuple[int, ...] = ()  # 3+
    is_new: bool = False  # 1+
    leader_recovery_state: int = 0  # 6+


class LeaderAndIsrTopicState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrRequest"

    topic_name: str = ""  # 2+
    topic_id: TopicId = ZERO_TOPIC_ID  # 5+
    partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()  # 2+


class LeaderAndIsrLiveLeader(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrRequest"

    broker_id: int = 0
    host_name: str = ""
    port: int = 0


class LeaderAndIsrRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrRequest"

    controller_id: int = 0
    is_kraft_controller: bool = False  # 7+
    controller_epoch: int = 0
    broker_epoch: int = -1  # 2+
    type: int = 0  # 5+
    ungrouped_partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()  # 0-1
    topic_states: tuple[LeaderAndIsrTopicState, ...] = ()  # 2+
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...] = ()


class LeaderAndIsrPartitionError(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrResponse"

    topic_name: str = ""  # 0-4
    partition_index: int = 0
    error_code: int = 0


class LeaderAndIsrTopicError(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrResponse"

    topic_id: TopicId = ZERO_TOPIC_ID  # 5+
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()  # 5+


class LeaderAndIsrResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrResponse"

    error_code: int = 0
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()  # 0-4
    topics: tuple[LeaderAndIsrTopicError, ...] = ()  # 5+


class StopReplicaPartitionV0(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    topic_name: str = ""  # 0
    partition_index: int = 0  # 0


class StopReplicaTopicV1(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    name: str = ""  # 1-2
    partition_indexes: tuple[int, ...] = ()  # 1-2


class StopReplicaPartitionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    partition_index: int = 0  # 3+
    leader_epoch: int = -1  # 3+
    delete_partition: bool = False  # 3+


class StopReplicaTopicState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    topic_name: str = ""  # 3+
    partition_states: tuple[StopReplicaPartitionState, ...] = ()  # 3+


class StopReplicaRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaRequest"

    controller_id: int = 0
    is_kraft_controller: bool = False  # 4+
    controller_epoch: int = 0
    broker_epoch: int = -1  # 1+
    delete_partitions: bool = False  # 0-2
    ungrouped_partitions: tuple[StopReplicaPartitionV0, ...] = ()  # 0
    topics: tuple[StopReplicaTopicV1, ...] = ()  # 1-2
    topic_states: tuple[StopReplicaTopicState, ...] = ()  # 3+


class StopReplicaPartitionError(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaResponse"

    topic_name: str = ""
    partition_index: int = 0
    error_code: int = 0


class StopReplicaResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "StopReplicaResponse"

    error_code: int = 0
    partition_errors: tuple[StopReplicaPartitionError, ...] = ()


class UpdateMetadataPartitionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    topic_name: str = ""  # 0-4
    partition_index: int = 0
    controller_epoch: int = 0
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    zk_version: int = 0
    replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()  # 4+


class UpdateMetadataTopicState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    topic_name: str = ""  # 5+
    topic_id: TopicId = ZERO_TOPIC_ID  # 7+
    partition_states: tuple[UpdateMetadataPartitionState, ...] = ()  # 5+


class UpdateMetadataEndpoint(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    port: int = 0  # 1+
    host: str = ""  # 1+
    listener: str = ""  # 3+
    security_protocol: int = 0  # 1+


class UpdateMetadataBroker(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    id: int = 0
    v0_host: str = ""  # 0
    v0_port: int = 0  # 0
    endpoints: tuple[UpdateMetadataEndpoint, ...] = ()  # 1+
    rack: str | None = ""  # 2+


class UpdateMetadataRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    controller_id: int = 0
    is_kraft_controller: bool = False  # 8+
    type: int = 0  # 8+
    controller_epoch: int = 0
    broker_epoch: int = -1  # 5+
    ungrouped_partition_states: tuple[UpdateMetadataPartitionState, ...] = ()  # 0-4
    topic_states: tuple[UpdateMetadataTopicState, ...] = ()  # 5+
    live_brokers: tuple[UpdateMetadataBroker, ...] = ()


class UpdateMetadataResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataResponse"

    error_code: int = 0
