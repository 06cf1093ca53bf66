"""What is asked of the active controller: each an event whose answer somebody waits for.

Source: Kafka ControllerEvent, those with a callback.
"""

from asyncio import Future
from typing import Generic, TypeVar

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.errors import ApiError, ErrorCode
from cluster.partition import TopicPartition
from cluster.requests.agents import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeFeaturesRequest,
    PlanFeatureUpdatesRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from cluster.requests.context import RequestContext
from cluster.requests.elections import ElectLeadersRequest, PlanControlledShutdownRequest
from cluster.requests.plans import Plan
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from cluster.requests.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DescribeTopicDeletionsRequest,
    DescribeTopicsRequest,
    ListTopicsRequest,
)
from controller.controller_state import ControllerState
from controller.decisions.partitions.requested_elections import RefusedElection
from controller.events import Event

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class RequestEvent(Event, Generic[Request, Answer], frozen=True):
    """`reply` is answered or refused exactly once, and done before that when the caller went away (INV-12).

    `context`: what is known of the call that asked, which the records of what follows from it name.
    """

    request: Request
    reply: "Future[Answer]"
    context: RequestContext = RequestContext()

    def answer(self, answer: Answer) -> None:
        if not self.reply.done():
            self.reply.set_result(answer)

    def refuse(self, error: ApiError) -> None:
        """Administrators get an error; between nodes it is a code in the answer."""
        if not self.reply.done():
            self.reply.set_exception(error)


# Between nodes


class AlterPartitionReceived(RequestEvent[AlterPartitionRequest, AlterPartitionResponse], frozen=True):
    state = ControllerState.ISR_CHANGE

    def refuse(self, error: ApiError) -> None:
        self.answer(AlterPartitionResponse(error.code))


class ControlledShutdownReceived(RequestEvent[ControlledShutdownRequest, ControlledShutdownResponse], frozen=True):
    state = ControllerState.CONTROLLED_SHUTDOWN

    def refuse(self, error: ApiError) -> None:
        # Brokers expect this code if the controller is no longer active (CS-1).
        moved = error.code is ErrorCode.NOT_CONTROLLER
        self.answer(ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH if moved else error.code))


class AllocateProducerIdsReceived(RequestEvent[AllocateProducerIdsRequest, AllocateProducerIdsResponse], frozen=True):
    state = ControllerState.IDLE

    def refuse(self, error: ApiError) -> None:
        self.answer(AllocateProducerIdsResponse(error.code))


# Administration. A decision is the first half of an answer; who asked may then wait for what follows from it.


class CreateTopicsDecision(Struct, frozen=True):
    """One result per topic of the request. `leaders_elected`: for each topic created, whether all its partitions
    got a leader while the controller that created it was active.
    """

    results: tuple[CreatableTopicResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreateTopicsReceived(RequestEvent[CreateTopicsRequest, CreateTopicsDecision], frozen=True):
    state = ControllerState.TOPIC_CHANGE


class CreatePartitionsDecision(Struct, frozen=True):
    """The same for topics that gain partitions."""

    results: tuple[CreatePartitionsResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreatePartitionsReceived(RequestEvent[CreatePartitionsRequest, CreatePartitionsDecision], frozen=True):
    state = ControllerState.TOPIC_CHANGE


class DeleteTopicsDecision(Struct, frozen=True):
    """One result per topic of the request. `deleted`: for each topic accepted, whether it went while the controller
    that accepted it was active.
    """

    results: tuple[DeletableTopicResult, ...]
    deleted: "dict[str, Future[bool]]"
    plan: Plan | None = None


class DeleteTopicsReceived(RequestEvent[DeleteTopicsRequest, DeleteTopicsDecision], frozen=True):
    state = ControllerState.TOPIC_DELETION


class AlterConfigsReceived(RequestEvent[AlterConfigsRequest, AlterConfigsResponse], frozen=True):
    state = ControllerState.IDLE


class UpdateFeaturesReceived(RequestEvent[UpdateFeaturesRequest, UpdateFeaturesResponse], frozen=True):
    state = ControllerState.UPDATE_FEATURES


class ApiPartitionReassignment(
    RequestEvent[AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse], frozen=True
):
    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


class ListPartitionReassignments(
    RequestEvent[ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse], frozen=True
):
    state = ControllerState.LIST_PARTITION_REASSIGNMENT


class ElectLeadersDecision(Struct, frozen=True):
    """What became of each partition asked for. `leaders`: those that were elected. `delivered`: for each of them,
    whether the broker took the news while the controller that elected it was active.
    """

    partitions: tuple[TopicPartition, ...]
    refusals: dict[TopicPartition, RefusedElection]
    leaders: dict[TopicPartition, BrokerId] = {}
    delivered: "dict[BrokerId, Future[bool]]" = {}
    plan: Plan | None = None


class ElectLeadersReceived(RequestEvent[ElectLeadersRequest, ElectLeadersDecision], frozen=True):
    state = ControllerState.MANUAL_LEADER_BALANCE


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


class QueryReceived(RequestEvent[Query, object], frozen=True):
    """A question about the context, which only the event loop reads."""

    state = ControllerState.IDLE
