"""Routes each request of an agent to the part that handles it. Source: Kafka KafkaApis."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from broker_agent.agent import Agent, AgentDependencies
from broker_agent.cluster_descriptions import ClusterDescriptions
from broker_agent.delete_records_requests import DeleteRecordsRequests
from broker_agent.fetch_requests import FetchRequests
from broker_agent.offset_requests import OffsetRequests
from broker_agent.produce_requests import ProduceRequests
from cluster.broker import UNKNOWN_BROKER_EPOCH
from cluster.errors import ApiError, ErrorCode
from cluster.requests.cluster import DescribeClusterRequest, ReadStateChangesRequest
from cluster.requests.context import RequestContext
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.data import (
    DeleteRecordsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetsForLeaderEpochRequest,
    ProduceRequest,
)
from cluster.requests.elections import ShutdownRequest, ShutdownResponse

_log = structlog.stdlib.get_logger()


class AgentNode:
    """The RequestHandler of an agent process."""

    def __init__(self, agent: Agent, dependencies: AgentDependencies) -> None:
        self._agent = agent
        self._request_stop = dependencies.request_stop
        self._handlers = self._build_handlers(dependencies)

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Handle one request of `cluster.requests`. Requests that arrive during startup wait for its end."""
        del context  # Who asks makes no difference yet: there is no authorizer.
        await self._agent.is_serving.wait()
        handler = self._handlers.get(type(request))
        if handler is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"an agent does not serve {type(request).__name__}")
        return await handler(request)

    def _build_handlers(self, dependencies: AgentDependencies) -> dict[type, Callable[[Any], Awaitable[Any]]]:
        agent = self._agent
        offsets = OffsetRequests(agent.manager)
        view = ClusterDescriptions(
            agent.broker_id,
            dependencies.cluster_id,
            zookeeper=dependencies.zookeeper,
            finder=agent.finder,
            metadata=agent.metadata,
        )

        async def list_offsets(request: ListOffsetsRequest) -> object:
            return offsets.list_offsets(request)

        async def offsets_for_leader_epoch(request: OffsetsForLeaderEpochRequest) -> object:
            return offsets.offsets_for_leader_epoch(request)

        async def metadata(request: MetadataRequest) -> object:
            return view.metadata(request)

        async def describe_cluster(_: DescribeClusterRequest) -> object:
            return await view.describe_cluster(agent.control.known_controller_epoch)

        async def shutdown(request: ShutdownRequest) -> object:
            return self._shut_down(request)

        return {
            LeaderAndIsrRequest: agent.control.leader_and_isr,
            StopReplicaRequest: agent.control.stop_replica,
            UpdateMetadataRequest: agent.control.update_metadata,
            FetchRequest: FetchRequests(agent.manager).handle,
            ProduceRequest: ProduceRequests(agent.manager, dependencies.clock).handle,
            ListOffsetsRequest: list_offsets,
            OffsetsForLeaderEpochRequest: offsets_for_leader_epoch,
            DeleteRecordsRequest: DeleteRecordsRequests(agent.manager).handle,
            MetadataRequest: metadata,
            DescribeClusterRequest: describe_cluster,
            ReadStateChangesRequest: dependencies.read_state_changes,
            ShutdownRequest: shutdown,
        }

    def _shut_down(self, request: ShutdownRequest) -> ShutdownResponse:
        """Start the graceful shutdown, as SIGTERM does, if this incarnation of this broker is addressed."""
        if request.broker_id != self._agent.broker_id:
            return ShutdownResponse(ErrorCode.INVALID_REQUEST)
        if request.broker_epoch not in (UNKNOWN_BROKER_EPOCH, self._agent.registration.epoch):
            return ShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)
        _log.info("Shutdown requested", broker=self._agent.broker_id)
        self._request_stop()
        return ShutdownResponse(ErrorCode.NONE)
