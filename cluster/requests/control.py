"""Control requests from the controller to brokers. Source: Kafka's control requests.

Lists marked SHARED have items that are in the requests to all brokers: the codec caches their bytes as long as they
exist.
"""

from typing import Annotated, assert_never

from msgspec import Struct

from cluster.model import bounds
from cluster.model.annotations import KafkaName, Mark
from cluster.model.broker import (
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    UNKNOWN_CONTROLLER_EPOCH,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import RECOVERED
from cluster.requests.field_types import PartitionIndex, Replicas, TopicName
from cluster.requests.request import RequestFor


class RequestCause(Struct, frozen=True):
    """The event that made a controller send a request; `id` is its number within the controller's process."""

    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    event: Annotated[str, bounds.EVENT_NAME]
    id: Annotated[int, bounds.EVENT_ID]


class StateLogHead(Struct, frozen=True):
    """Says where a node's state-change log ended when it was last flushed: number and SHA-256 of the last line.

    As it was received: nothing in it was checked. `boot_id`: of the node's machine; empty where that is unknown.
    """

    node: str = ""
    incarnation: str = ""
    seq: int = -1
    digest: str = ""
    boot_id: str = ""


WitnessedHead = Annotated[StateLogHead | None, Mark.CHECKED_BY_ITS_READER]
"""A malformed one is ignored (`state_log.witnessed_heads`)."""


class LeaderAndIsrPartitionState(Struct, frozen=True, weakref=True):
    partition_index: PartitionIndex
    controller_epoch: ControllerEpoch
    leader: Annotated[BrokerId, bounds.BROKER_ID_OR_NONE]
    leader_epoch: Annotated[LeaderEpoch, bounds.LEADER_EPOCH]
    isr: Replicas
    partition_epoch: PartitionEpoch
    replicas: Replicas
    adding_replicas: Replicas = ()
    removing_replicas: Replicas = ()
    is_new: bool = False
    leader_recovery_state: Annotated[int, bounds.RECOVERY_STATE] = RECOVERED


class LeaderAndIsrTopicState(Struct, frozen=True):
    topic_name: TopicName
    topic_id: TopicId | None
    partition_states: Annotated[tuple[LeaderAndIsrPartitionState, ...], Mark.JOINED]


class LiveLeader(Struct, frozen=True):
    broker_id: BrokerId
    host: Annotated[str, bounds.HOST, KafkaName("host_name")]
    port: Annotated[int, bounds.PORT]


class LeaderAndIsrRequest(RequestFor["LeaderAndIsrResponse"], frozen=True):
    """`causes`, in all three requests: the events that it follows from, oldest first; may be empty.

    `state_log_head`, in all requests and responses: of the sender's state-change log.
    """

    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    topic_states: tuple[LeaderAndIsrTopicState, ...] = ()
    live_leaders: tuple[LiveLeader, ...] = ()
    causes: tuple[RequestCause, ...] = ()
    state_log_head: WitnessedHead = None


class LeaderAndIsrPartitionError(Struct, frozen=True):
    """`leader_epoch`: the broker's, if it is higher than the requested one; else -1."""

    topic_name: str
    topic_id: TopicId | None
    partition_index: int
    error_code: ErrorCode
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class LeaderAndIsrResponse(Struct, frozen=True):
    """`controller_epoch`, `broker_epoch`, in all three responses: those known to the broker, if the whole request was
    refused for its epochs; else -1.
    """

    error_code: ErrorCode
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()
    controller_epoch: ControllerEpoch = UNKNOWN_CONTROLLER_EPOCH
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    state_log_head: WitnessedHead = None


class StopReplicaPartitionState(Struct, frozen=True):
    """`topic_id`: a log of another topic, an earlier or later one of this name, is neither stopped nor deleted."""

    topic_name: TopicName
    partition_index: PartitionIndex
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    delete_partition: bool = False
    topic_id: TopicId | None = None


class StopReplicaRequest(RequestFor["StopReplicaResponse"], frozen=True):
    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    partition_states: tuple[StopReplicaPartitionState, ...] = ()
    causes: tuple[RequestCause, ...] = ()
    state_log_head: WitnessedHead = None


class StopReplicaPartitionError(Struct, frozen=True):
    topic_name: str
    partition_index: int
    error_code: ErrorCode


class StopReplicaResponse(Struct, frozen=True):
    error_code: ErrorCode
    partition_errors: tuple[StopReplicaPartitionError, ...] = ()
    controller_epoch: ControllerEpoch = UNKNOWN_CONTROLLER_EPOCH
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    state_log_head: WitnessedHead = None


# Not tracked by the cyclic garbage collector: of numbers and tuples of numbers no cycle can be made.
class UpdateMetadataPartitionState(Struct, frozen=True, gc=False):
    partition_index: PartitionIndex
    controller_epoch: ControllerEpoch
    leader: Annotated[BrokerId, bounds.LEADER]
    leader_epoch: LeaderEpoch
    isr: Replicas
    zk_version: PartitionEpoch
    replicas: Replicas
    offline_replicas: Replicas = ()


class UpdateMetadataTopicState(Struct, frozen=True, weakref=True):
    topic_name: TopicName
    topic_id: TopicId | None
    partition_states: tuple[UpdateMetadataPartitionState, ...]


class UpdateMetadataRequest(RequestFor["UpdateMetadataResponse"], frozen=True):
    """`live_brokers`: id, endpoints and rack; features are not sent."""

    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    topic_states: Annotated[tuple[UpdateMetadataTopicState, ...], Mark.SHARED] = ()
    live_brokers: Annotated[tuple[Broker, ...], Mark.SHARED] = ()
    causes: tuple[RequestCause, ...] = ()
    state_log_head: WitnessedHead = None


class UpdateMetadataResponse(Struct, frozen=True):
    error_code: ErrorCode
    controller_epoch: ControllerEpoch = UNKNOWN_CONTROLLER_EPOCH
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    state_log_head: WitnessedHead = None


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


def refusal(request: ControlRequest, code: ErrorCode) -> ControlResponse:
    """The response to a request that was refused as a whole, with Kafka's top-level error code."""
    match request:
        case LeaderAndIsrRequest():
            return LeaderAndIsrResponse(code)
        case StopReplicaRequest():
            return StopReplicaResponse(code)
        case UpdateMetadataRequest():
            return UpdateMetadataResponse(code)
        case _:
            assert_never(request)
