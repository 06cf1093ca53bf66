"""A controller process as the wire sees it: requests in, answers out, whatever its role is at the moment."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import structlog
from msgspec.structs import replace

from cluster.broker import ControllerEpoch
from cluster.errors import ApiError, ErrorCode, MalformedZnodeError, ZooKeeperError
from cluster.requests.agents import AllocateProducerIdsRequest, AlterPartitionRequest, ControlledShutdownRequest
from cluster.requests.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    ReadStateChangesRequest,
    ReadStateChangesResponse,
    WatchRequest,
    WatchResponse,
)
from cluster.requests.configs import AlterConfigsRequest, UpdateFeaturesRequest
from cluster.requests.context import RequestContext
from cluster.requests.elections import ElectLeadersRequest, ElectLeadersResponse
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from cluster.znodes.cluster_wide import decode_cluster_id
from cluster.znodes.controller import decode_controller_epoch
from cluster.znodes.paths import CLUSTER_ID, CONTROLLER_EPOCH
from cluster.zookeeper.port import ZooKeeper
from cluster.zookeeper.registered_controllers import registered_controllers
from controller.answered_requests import AnsweredRequests
from controller.controller import Controller
from controller.event_loop import preempt
from controller.events import Event
from controller.handlers.partitions.elections import wait_for_delivery
from controller.handlers.topics.deletion_requests import wait_for_deletions
from controller.handlers.topics.requests import wait_for_leaders, wait_for_new_partitions
from controller.request_events import (
    AllocateProducerIdsReceived,
    AlterConfigsReceived,
    AlterPartitionReceived,
    ApiPartitionReassignment,
    ControlledShutdownReceived,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    ElectLeadersDecision,
    ElectLeadersReceived,
    ListPartitionReassignments,
    Query,
    QueryReceived,
    Request,
    RequestEvent,
    UpdateFeaturesReceived,
)

REDIRECT_TIMEOUT_S: Final = 2
"""How long a standby looks for the active controller before it refuses without an address."""
_log = structlog.stdlib.get_logger()

_EVENT_OF_MUTATION: Final[dict[type, Callable[[Any, asyncio.Future[Any], RequestContext], Event]]] = {
    AlterConfigsRequest: AlterConfigsReceived,
    AlterPartitionReassignmentsRequest: ApiPartitionReassignment,
    UpdateFeaturesRequest: UpdateFeaturesReceived,
}
"""Those whose answer is complete when they are decided upon."""
ReadStateChanges = Callable[[ReadStateChangesRequest], Awaitable[ReadStateChangesResponse]]


class ControllerNode:
    """The RequestHandler of a controller process."""

    def __init__(self, controller: Controller, zookeeper: ZooKeeper, read_state_changes: ReadStateChanges) -> None:
        self._controller = controller
        self._zookeeper = zookeeper
        self._read_state_changes = read_state_changes
        self._answered = AnsweredRequests()

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Answer a request of ControllerService or ClusterService.

        Between nodes an error is a code in the answer. Administrative requests raise ApiError; NOT_CONTROLLER
        then carries the address of the active controller, if there is one.
        """
        match request:
            case AlterPartitionRequest():
                return await self._answer_node(context, request, AlterPartitionReceived)
            case ControlledShutdownRequest():
                return await self._answer_node(context, request, ControlledShutdownReceived)
            case AllocateProducerIdsRequest():
                return await self._answer_node(context, request, AllocateProducerIdsReceived)
            case DescribeClusterRequest():
                return await self._describe_cluster(request)
            case ReadStateChangesRequest():
                return await self._read_state_changes(request)
            case _:
                return await self._redirecting(self._administer(context, request))

    async def _administer(self, context: RequestContext, request: Any) -> Any:
        match request:
            case CreateTopicsRequest() | CreatePartitionsRequest() | DeleteTopicsRequest():
                return await self._change_topics(context, request)
            case ElectLeadersRequest():
                return await self._elect_leaders(context, request)
            case AlterConfigsRequest() | UpdateFeaturesRequest() | AlterPartitionReassignmentsRequest():
                return await self._decide(context, request, _EVENT_OF_MUTATION[type(request)])
            case WatchRequest():
                return self._watch(request)
            case ListPartitionReassignmentsRequest():
                return await self._ask(request, ListPartitionReassignments)
            case _ if isinstance(request, Query):
                return await self._query(request)
            case _:
                kind = type(request).__name__
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"a controller does not answer {kind}")

    async def _answer_node(
        self,
        context: RequestContext,
        request: Request,
        event: Callable[[Request, asyncio.Future[Any], RequestContext], RequestEvent[Request, Any]],
    ) -> Any:
        """The event loop's answer to a broker; while not active the answer's code says so."""
        asked = event(request, asyncio.get_running_loop().create_future(), context)
        if self._controller.is_active:
            self._controller.events.put(asked)
        else:
            preempt(asked)
        return await asked.reply

    async def _elect_leaders(self, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
        decided: ElectLeadersDecision = await self._decide(context, request, ElectLeadersReceived)
        return await wait_for_delivery(decided, request)

    def _watch(self, request: WatchRequest) -> AsyncIterator[WatchResponse]:
        feed = self._controller.feed
        if feed is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active")
        return feed.follow(request)

    async def _change_topics(
        self, context: RequestContext, request: CreateTopicsRequest | CreatePartitionsRequest | DeleteTopicsRequest
    ) -> Any:
        match request:
            case CreateTopicsRequest():
                created = await self._decide(context, request, CreateTopicsReceived)
                return CreateTopicsResponse(await wait_for_leaders(created, request.timeout_ms), created.plan)
            case CreatePartitionsRequest():
                expanded = await self._decide(context, request, CreatePartitionsReceived)
                results = await wait_for_new_partitions(expanded, request.timeout_ms)
                return CreatePartitionsResponse(results, expanded.plan)
            case DeleteTopicsRequest():
                marked = await self._decide(context, request, DeleteTopicsReceived)
                return DeleteTopicsResponse(await wait_for_deletions(marked, request.timeout_ms), marked.plan)

    async def _decide(
        self,
        context: RequestContext,
        request: Request,
        event: Callable[[Request, asyncio.Future[Any], RequestContext], Event],
    ) -> Any:
        """The event loop's answer to a mutation; the first one where the same request comes again."""
        return await self._answered.first_answer(
            context.request_id, request, lambda reply: self._enqueue(event(request, reply, context))
        )

    async def _query(self, query: Query) -> Any:
        return await self._ask(query, QueryReceived)

    async def _ask(self, request: Request, event: Callable[[Request, asyncio.Future[Any]], Event]) -> Any:
        """The event loop's answer to what changes nothing."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._enqueue(event(request, reply))
        return await reply

    def _enqueue(self, event: Event) -> None:
        if not self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active")
        self._controller.events.put(event)

    async def _redirecting(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            message = error.message
        raise ApiError(ErrorCode.NOT_CONTROLLER, message, leader_address=await self._active_address())

    async def _active_address(self) -> str | None:
        try:
            async with asyncio.timeout(REDIRECT_TIMEOUT_S):
                _, address = await self._controller.election.address_of_active()
        except (TimeoutError, ZooKeeperError):
            return None
        return address if address else None

    async def _describe_cluster(self, request: DescribeClusterRequest) -> Any:
        """The active controller tells what it knows; a standby at least who is active."""
        try:
            described = await self._query(request)
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            described = None
        try:
            async with asyncio.timeout(REDIRECT_TIMEOUT_S):
                if described is None:
                    described = await self._describe_from_zookeeper()
                return replace(described, controllers=await registered_controllers(self._zookeeper))
        except (TimeoutError, ZooKeeperError):
            if described is not None:
                return described
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "ZooKeeper cannot be reached from here") from None

    async def _describe_from_zookeeper(self) -> DescribeClusterResponse:
        active, address = await self._controller.election.address_of_active()
        data = await self._zookeeper.get(CLUSTER_ID)
        epoch = await self._zookeeper.get(CONTROLLER_EPOCH)
        try:
            cluster_id = "" if data is None else decode_cluster_id(data.data)
            controller_epoch = ControllerEpoch(0) if epoch is None else decode_controller_epoch(epoch.data)
        except MalformedZnodeError as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        return DescribeClusterResponse(
            cluster_id=cluster_id,
            controller_id=active,
            controller_address=address,
            controller_epoch=controller_epoch,
            brokers=(),
            node_id=self._controller.config.id,
            node_role="controller",
        )
