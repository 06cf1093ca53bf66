"""Controller to broker: roles, metadata, ends of replicas. Source: the control requests of Kafka.

The parts that several requests carry can be referred to weakly: the codec keeps their bytes as long as they exist.
"""

from msgspec import Struct

from cluster.broker import (
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.errors import ErrorCode
from cluster.partition import RECOVERED


class LeaderAndIsrPartitionState(Struct, frozen=True, weakref=True):
    partition_index: int
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    is_new: bool = False
    leader_recovery_state: int = RECOVERED


class LeaderAndIsrTopicState(Struct, frozen=True):
    topic_name: str
    topic_id: TopicId | None
    partition_states: tuple[LeaderAndIsrPartitionState, ...]


class LiveLeader(Struct, frozen=True):
    broker_id: BrokerId
    host: str
    port: int


class LeaderAndIsrRequest(Struct, frozen=True):
    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    topic_states: tuple[LeaderAndIsrTopicState, ...] = ()
    live_leaders: tuple[LiveLeader, ...] = ()


class LeaderAndIsrPartitionError(Struct, frozen=True):
    topic_name: str
    topic_id: TopicId | None
    partition_index: int
    error_code: ErrorCode


class LeaderAndIsrResponse(Struct, frozen=True):
    error_code: ErrorCode
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()


class StopReplicaPartitionState(Struct, frozen=True):
    topic_name: str
    partition_index: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    delete_partition: bool = False


class StopReplicaRequest(Struct, frozen=True):
    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    partition_states: tuple[StopReplicaPartitionState, ...] = ()


class StopReplicaPartitionError(Struct, frozen=True):
    topic_name: str
    partition_index: int
    error_code: ErrorCode


class StopReplicaResponse(Struct, frozen=True):
    error_code: ErrorCode
    partition_errors: tuple[StopReplicaPartitionError, ...] = ()


class UpdateMetadataPartitionState(Struct, frozen=True):
    partition_index: int
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...] = ()


class UpdateMetadataTopicState(Struct, frozen=True, weakref=True):
    topic_name: str
    topic_id: TopicId | None
    partition_states: tuple[UpdateMetadataPartitionState, ...]


class UpdateMetadataRequest(Struct, frozen=True):
    """`live_brokers` carries id, endpoints and rack; features stay behind."""

    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    topic_states: tuple[UpdateMetadataTopicState, ...] = ()
    live_brokers: tuple[Broker, ...] = ()


class UpdateMetadataResponse(Struct, frozen=True):
    error_code: ErrorCode


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse
