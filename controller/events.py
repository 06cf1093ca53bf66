"""Everything the controller reacts to, one frozen value per kind of event, and the state it is in meanwhile.

Source: Kafka ControllerEvent.
"""

from asyncio import Future
from typing import Final

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.requests import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeFeaturesRequest,
    DescribeReassignmentsRequest,
    DescribeTopicDeletionsRequest,
    DescribeTopicsRequest,
    ElectLeadersRequest,
    LeaderAndIsrResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListTopicsRequest,
    Plan,
    PlanControlledShutdownRequest,
    PlanFeatureUpdatesRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpdateMetadataResponse,
)
from controller.controller_state import ControllerState
from controller.decisions.requested_elections import Refusal


class Startup(Struct, frozen=True):
    """The first session is up."""


class ControllerChange(Struct, frozen=True):
    """`/controller` was created or changed."""


class Reelect(Struct, frozen=True):
    """`/controller` was deleted."""


class RegisterAndReelect(Struct, frozen=True):
    """There is a new session, or the node of an earlier incarnation of this process is gone."""


class Expire(Struct, frozen=True):
    """The session is gone. Jumps the queue."""


class ShutdownEventLoop(Struct, frozen=True):
    """The process is to end. Jumps the queue."""


class BrokerChange(Struct, frozen=True):
    """Children of `/brokers/ids` changed."""


class BrokerModifications(Struct, frozen=True):
    """The registration of this broker changed."""

    broker: BrokerId


class TopicChange(Struct, frozen=True):
    """Children of `/brokers/topics` changed."""


class PartitionModifications(Struct, frozen=True):
    """The node of this topic changed."""

    topic: str


class TopicDeletion(Struct, frozen=True):
    """Children of `/admin/delete_topics` changed."""


class TopicDeletionStopReplicaResponseReceived(Struct, frozen=True):
    """What a broker answered about replicas that it was to delete with their topics."""

    broker: BrokerId
    error_code: ErrorCode
    results: dict[TopicPartition, ErrorCode]


class ZkPartitionReassignment(Struct, frozen=True):
    """`/admin/reassign_partitions` was created, or this controller has deleted it and must watch for the next."""


class ApiPartitionReassignment(Struct, frozen=True):
    request: AlterPartitionReassignmentsRequest
    reply: "Future[AlterPartitionReassignmentsResponse]"


class PartitionReassignmentIsrChange(Struct, frozen=True):
    """The state node of a partition that is being moved changed; only where leaders write it themselves."""

    topic_partition: TopicPartition


class ListPartitionReassignments(Struct, frozen=True):
    request: ListPartitionReassignmentsRequest
    reply: "Future[ListPartitionReassignmentsResponse]"


class ReplicaLeaderElection(Struct, frozen=True):
    """`/admin/preferred_replica_election` was created, or this controller has deleted it and waits for the next."""


class ElectionsDecided(Struct, frozen=True):
    """What became of each partition asked for. `leaders`: those that were elected. `heard`: for each of them,
    whether the broker took the news while the controller that elected it was in office.
    """

    partitions: tuple[TopicPartition, ...]
    refusals: dict[TopicPartition, Refusal]
    leaders: dict[TopicPartition, BrokerId] = {}
    heard: "dict[BrokerId, Future[bool]]" = {}
    plan: Plan | None = None


class ElectLeadersReceived(Struct, frozen=True):
    """Its reply comes as soon as leaders are elected; who asked may then wait until they know of it."""

    request: ElectLeadersRequest
    reply: "Future[ElectionsDecided]"


class AutoPreferredReplicaLeaderElection(Struct, frozen=True):
    """It is time to look whether brokers lead what they were meant to lead."""


class UncleanLeaderElectionEnable(Struct, frozen=True):
    """The cluster's setting now allows unclean elections."""


class TopicUncleanLeaderElectionEnable(Struct, frozen=True):
    """The setting of one topic now allows unclean elections."""

    topic: str


class IsrChangeNotification(Struct, frozen=True):
    """Children of `/isr_change_notification` changed."""


class LogDirEventNotification(Struct, frozen=True):
    """Children of `/log_dir_event_notification` changed."""


class LeaderAndIsrResponseReceived(Struct, frozen=True):
    broker: BrokerId
    response: LeaderAndIsrResponse


class UpdateMetadataResponseReceived(Struct, frozen=True):
    broker: BrokerId
    response: UpdateMetadataResponse


class AlterPartitionReceived(Struct, frozen=True):
    request: AlterPartitionRequest
    reply: "Future[AlterPartitionResponse]"


class ControlledShutdownReceived(Struct, frozen=True):
    request: ControlledShutdownRequest
    reply: "Future[ControlledShutdownResponse]"


class AllocateProducerIdsReceived(Struct, frozen=True):
    request: AllocateProducerIdsRequest
    reply: "Future[AllocateProducerIdsResponse]"


class UpdateFeaturesReceived(Struct, frozen=True):
    request: UpdateFeaturesRequest
    reply: "Future[UpdateFeaturesResponse]"


class TopicsDecided(Struct, frozen=True):
    """One result per topic of the request. `leaders_elected`: for each topic created, whether all its partitions
    got a leader while the controller that created it was in office.
    """

    results: tuple[CreatableTopicResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class PartitionsDecided(Struct, frozen=True):
    """The same for topics that gain partitions."""

    results: tuple[CreatePartitionsResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreatePartitionsReceived(Struct, frozen=True):
    request: CreatePartitionsRequest
    reply: "Future[PartitionsDecided]"


class DeletionsDecided(Struct, frozen=True):
    """One result per topic of the request. `deleted`: for each topic accepted, whether it went while the controller
    that accepted it was in office.
    """

    results: tuple[DeletableTopicResult, ...]
    deleted: "dict[str, Future[bool]]"
    plan: Plan | None = None


class DeleteTopicsReceived(Struct, frozen=True):
    request: DeleteTopicsRequest
    reply: "Future[DeletionsDecided]"


class AlterConfigsReceived(Struct, frozen=True):
    request: AlterConfigsRequest
    reply: "Future[AlterConfigsResponse]"


class CreateTopicsReceived(Struct, frozen=True):
    """Its reply comes as soon as the topics are decided upon; who asked may then wait for their leaders."""

    request: CreateTopicsRequest
    reply: "Future[TopicsDecided]"


Query = (
    DescribeClusterRequest
    | PlanControlledShutdownRequest
    | ListTopicsRequest
    | DescribeTopicsRequest
    | DescribeReassignmentsRequest
    | DescribeTopicDeletionsRequest
    | DescribeConfigsRequest
    | DescribeFeaturesRequest
    | PlanFeatureUpdatesRequest
)


class QueryReceived(Struct, frozen=True):
    """A question about the context, which only the event loop reads."""

    request: Query
    reply: "Future[object]"


Event = (
    Startup
    | ControllerChange
    | Reelect
    | RegisterAndReelect
    | Expire
    | ShutdownEventLoop
    | BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | TopicDeletionStopReplicaResponseReceived
    | ZkPartitionReassignment
    | ApiPartitionReassignment
    | PartitionReassignmentIsrChange
    | ListPartitionReassignments
    | ReplicaLeaderElection
    | ElectLeadersReceived
    | AutoPreferredReplicaLeaderElection
    | UncleanLeaderElectionEnable
    | TopicUncleanLeaderElectionEnable
    | IsrChangeNotification
    | LogDirEventNotification
    | LeaderAndIsrResponseReceived
    | UpdateMetadataResponseReceived
    | AlterPartitionReceived
    | ControlledShutdownReceived
    | AllocateProducerIdsReceived
    | UpdateFeaturesReceived
    | CreateTopicsReceived
    | CreatePartitionsReceived
    | DeleteTopicsReceived
    | AlterConfigsReceived
    | QueryReceived
)

STATE_OF_EVENT: Final[dict[type[Event], ControllerState]] = {
    Startup: ControllerState.CONTROLLER_CHANGE,
    ControllerChange: ControllerState.CONTROLLER_CHANGE,
    Reelect: ControllerState.CONTROLLER_CHANGE,
    RegisterAndReelect: ControllerState.CONTROLLER_CHANGE,
    Expire: ControllerState.CONTROLLER_CHANGE,
    ShutdownEventLoop: ControllerState.CONTROLLER_SHUTDOWN,
    BrokerChange: ControllerState.BROKER_CHANGE,
    BrokerModifications: ControllerState.BROKER_CHANGE,
    TopicChange: ControllerState.TOPIC_CHANGE,
    PartitionModifications: ControllerState.TOPIC_CHANGE,
    TopicDeletion: ControllerState.TOPIC_DELETION,
    TopicDeletionStopReplicaResponseReceived: ControllerState.TOPIC_DELETION,
    ZkPartitionReassignment: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    ApiPartitionReassignment: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    PartitionReassignmentIsrChange: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    ListPartitionReassignments: ControllerState.LIST_PARTITION_REASSIGNMENT,
    ReplicaLeaderElection: ControllerState.MANUAL_LEADER_BALANCE,
    ElectLeadersReceived: ControllerState.MANUAL_LEADER_BALANCE,
    AutoPreferredReplicaLeaderElection: ControllerState.AUTO_LEADER_BALANCE,
    IsrChangeNotification: ControllerState.ISR_CHANGE,
    LogDirEventNotification: ControllerState.LOG_DIR_CHANGE,
    AllocateProducerIdsReceived: ControllerState.IDLE,
    UpdateFeaturesReceived: ControllerState.UPDATE_FEATURES,
    UncleanLeaderElectionEnable: ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE,
    TopicUncleanLeaderElectionEnable: ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE,
    LeaderAndIsrResponseReceived: ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
    UpdateMetadataResponseReceived: ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED,
    AlterPartitionReceived: ControllerState.ISR_CHANGE,
    ControlledShutdownReceived: ControllerState.CONTROLLED_SHUTDOWN,
    CreateTopicsReceived: ControllerState.TOPIC_CHANGE,
    CreatePartitionsReceived: ControllerState.TOPIC_CHANGE,
    DeleteTopicsReceived: ControllerState.TOPIC_DELETION,
    AlterConfigsReceived: ControllerState.IDLE,
    QueryReceived: ControllerState.IDLE,
}
