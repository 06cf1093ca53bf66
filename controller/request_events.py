"""What is asked of the controller in office: each an event whose answer somebody waits for.

Source: Kafka ControllerEvent, those with a callback.
"""

from asyncio import Future
from typing import Generic, TypeVar

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.errors import ApiError, ErrorCode
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
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListTopicsRequest,
    Plan,
    PlanControlledShutdownRequest,
    PlanFeatureUpdatesRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from controller.controller_state import ControllerState
from controller.decisions.requested_elections import Refusal
from controller.events import Event

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Asked(Event, Generic[Request, Answer], frozen=True):
    """`reply` is answered or refused exactly once, and done before that when the caller went away (INV-12)."""

    request: Request
    reply: "Future[Answer]"

    def answer(self, answer: Answer) -> None:
        if not self.reply.done():
            self.reply.set_result(answer)

    def refuse(self, error: ApiError) -> None:
        """Administrators get an error; between nodes it is a code in the answer."""
        if not self.reply.done():
            self.reply.set_exception(error)


# Between nodes


class AlterPartitionReceived(Asked[AlterPartitionRequest, AlterPartitionResponse], frozen=True):
    state = ControllerState.ISR_CHANGE

    def refuse(self, error: ApiError) -> None:
        self.answer(AlterPartitionResponse(error.code))


class ControlledShutdownReceived(Asked[ControlledShutdownRequest, ControlledShutdownResponse], frozen=True):
    state = ControllerState.CONTROLLED_SHUTDOWN

    def refuse(self, error: ApiError) -> None:
        # A broker knows the loss of the office by this code (CS-1).
        moved = error.code is ErrorCode.NOT_CONTROLLER
        self.answer(ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH if moved else error.code))


class AllocateProducerIdsReceived(Asked[AllocateProducerIdsRequest, AllocateProducerIdsResponse], frozen=True):
    state = ControllerState.IDLE

    def refuse(self, error: ApiError) -> None:
        self.answer(AllocateProducerIdsResponse(error.code))


# Administration. A decision is the first half of an answer; who asked may then wait for what follows from it.


class TopicsDecided(Struct, frozen=True):
    """One result per topic of the request. `leaders_elected`: for each topic created, whether all its partitions
    got a leader while the controller that created it was in office.
    """

    results: tuple[CreatableTopicResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreateTopicsReceived(Asked[CreateTopicsRequest, TopicsDecided], frozen=True):
    state = ControllerState.TOPIC_CHANGE


class PartitionsDecided(Struct, frozen=True):
    """The same for topics that gain partitions."""

    results: tuple[CreatePartitionsResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreatePartitionsReceived(Asked[CreatePartitionsRequest, PartitionsDecided], frozen=True):
    state = ControllerState.TOPIC_CHANGE


class DeletionsDecided(Struct, frozen=True):
    """One result per topic of the request. `deleted`: for each topic accepted, whether it went while the controller
    that accepted it was in office.
    """

    results: tuple[DeletableTopicResult, ...]
    deleted: "dict[str, Future[bool]]"
    plan: Plan | None = None


class DeleteTopicsReceived(Asked[DeleteTopicsRequest, DeletionsDecided], frozen=True):
    state = ControllerState.TOPIC_DELETION


class AlterConfigsReceived(Asked[AlterConfigsRequest, AlterConfigsResponse], frozen=True):
    state = ControllerState.IDLE


class UpdateFeaturesReceived(Asked[UpdateFeaturesRequest, UpdateFeaturesResponse], frozen=True):
    state = ControllerState.UPDATE_FEATURES


class ApiPartitionReassignment(
    Asked[AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse], frozen=True
):
    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


class ListPartitionReassignments(
    Asked[ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse], frozen=True
):
    state = ControllerState.LIST_PARTITION_REASSIGNMENT


class ElectionsDecided(Struct, frozen=True):
    """What became of each partition asked for. `leaders`: those that were elected. `heard`: for each of them,
    whether the broker took the news while the controller that elected it was in office.
    """

    partitions: tuple[TopicPartition, ...]
    refusals: dict[TopicPartition, Refusal]
    leaders: dict[TopicPartition, BrokerId] = {}
    heard: "dict[BrokerId, Future[bool]]" = {}
    plan: Plan | None = None


class ElectLeadersReceived(Asked[ElectLeadersRequest, ElectionsDecided], frozen=True):
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


class QueryReceived(Asked[Query, object], frozen=True):
    """A question about the context, which only the event loop reads."""

    state = ControllerState.IDLE
