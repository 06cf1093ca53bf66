"""Requests to the active controller as events, each with a reply that a caller awaits.

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
    """A request with its `reply`, which is answered or refused exactly once; done earlier if the caller cancelled
    (INV-12).
    """

    request: Request
    reply: "Future[Answer]"

    def answer(self, answer: Answer) -> None:
        if not self.reply.done():
            self.reply.set_result(answer)

    def refuse(self, error: ApiError) -> None:
        """Fail the reply: an exception for administrative requests, an error code in the response between nodes."""
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


# Administration. A decision is returned at once; the caller may then wait for its effects.


class CreateTopicsDecision(Struct, frozen=True):
    """One result per topic of the request. `leaders_elected`: per created topic, a future as of
    `ActiveController.leaders_elected`.
    """

    results: tuple[CreatableTopicResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreateTopicsReceived(RequestEvent[CreateTopicsRequest, CreateTopicsDecision], frozen=True):
    state = ControllerState.TOPIC_CHANGE


class CreatePartitionsDecision(Struct, frozen=True):
    """One result per topic of the request. `leaders_elected`: the same for topics that gain partitions."""

    results: tuple[CreatePartitionsResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreatePartitionsReceived(RequestEvent[CreatePartitionsRequest, CreatePartitionsDecision], frozen=True):
    state = ControllerState.TOPIC_CHANGE


class DeleteTopicsDecision(Struct, frozen=True):
    """One result per topic of the request. `deleted`: per accepted topic, a future as of
    `ActiveController.topic_deleted`.
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
    """The result per requested partition. `leaders`: partition -> elected leader. `delivered`: per such leader, a
    future that is True once the broker acknowledged, False if the controller resigned before.
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
    """A read of the context, which only the event loop may access."""

    state = ControllerState.IDLE
