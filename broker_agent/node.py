"""Routes each request of an agent to the part that handles it. Source: Kafka KafkaApis."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import structlog

from broker_agent.agent import Agent, AgentDependencies
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.batch_validation import BatchValidation
from broker_agent.requests.cluster_descriptions import ClusterDescriptions
from broker_agent.requests.delete_records import DeleteRecordsRequests
from broker_agent.requests.fetch import FetchRequests
from broker_agent.requests.log_dirs import LogDirRequests
from broker_agent.requests.offsets import OffsetRequests
from broker_agent.requests.produce import ProduceRequests
from broker_agent.requests.producer_ids import ProducerIds
from broker_agent.requests.replica_descriptions import ReplicaDescriptions
from cluster.aio.parking import parked
from cluster.model.bounds import shortened
from cluster.model.broker import UNKNOWN_BROKER_EPOCH
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.process.descriptors import few_open_files_left
from cluster.requests import data
from cluster.requests.cluster import (
    AcknowledgeDamageRequest,
    AcknowledgeDamageResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeFindingsRequest,
    DescribeFindingsResponse,
    Finding,
    LostOffsets,
)
from cluster.requests.context import RequestContext
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.elections import ShutdownRequest, ShutdownResponse
from cluster.requests.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest, OnlineLogDirRequest
from cluster.requests.recovery import DescribeReplicasRequest
from cluster.rpc.apis import ApiKind, DirectApi, check_listener
from cluster.rpc.call_kinds import CallKind
from cluster.rpc.refusals import handle_within_bounds

_log = structlog.stdlib.get_logger()


class AgentNode:
    """The RequestHandler of an agent process."""

    def __init__(self, agent: Agent, dependencies: AgentDependencies) -> None:
        self._agent = agent
        self._listeners = dependencies.settings.listener_names
        self._request_stop = dependencies.request_stop
        self.producer_ids = ProducerIds(
            agent.broker_id,
            broker_epoch=lambda: agent.registration.epoch,
            controller=lambda: agent.finder.control_endpoint,
            client=dependencies.client,
        )
        self.apis = {api.request: api for api in (*self._own_apis(dependencies), *dependencies.apis)}

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Handle one request of `cluster.requests`. Requests that arrive during startup wait for its end."""
        if not self._agent.is_serving.is_set():
            async with parked():
                await self._agent.is_serving.wait()
        api = self.apis.get(type(request))
        if api is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"an agent does not serve {type(request).__name__}")
        check_listener(api, context, self._listeners, self._agent.registration.broker.endpoints)
        handle = partial(handle_within_bounds, handle=api.handler)
        if api.kind is ApiKind.INTER_NODE:
            return await handle(request)
        return await self._agent.client_quotas.handle(context, request, handle)

    def recognize(self, request: Any) -> CallKind | None:
        """The kind of a fetch, which only its request tells. None: that of its method."""
        if not isinstance(request, data.FetchRequest):
            return None
        return CallKind.REPLICATION if self._agent.manager.is_follower_fetch(request) else CallKind.FETCH

    def _own_apis(self, dependencies: AgentDependencies) -> tuple[DirectApi[Any], ...]:
        agent, control = self._agent, self._agent.control
        validation = BatchValidation(dependencies.workers, dependencies.clock, dependencies.settings)
        offsets = OffsetRequests(agent.manager, validation)
        produce = ProduceRequests(agent.manager, dependencies.clock, validation)
        replicas = ReplicaDescriptions(
            agent.manager,
            lambda: control.known_controller_epoch,
            dependencies.recorded_roles,
            agent.registration.restored,
            self.producer_ids,
        )
        log_dirs = LogDirRequests(agent.manager, agent.copies, control, agent.returns)
        view = ClusterDescriptions(
            agent.broker_id,
            dependencies.cluster_id,
            zookeeper=dependencies.zookeeper,
            finder=agent.finder,
            metadata=agent.metadata,
        )

        async def describe_findings(_: DescribeFindingsRequest) -> DescribeFindingsResponse:
            restored = agent.registration.restored.findings()
            agent.damaged.forget_ended()
            of_process = (
                *few_open_files_left(f"broker {agent.broker_id}", agent.broker_id),
                *dependencies.findings_of_process(),
            )
            return DescribeFindingsResponse((*restored, *of_process, *agent.findings(), *_disk_findings(agent.manager)))

        async def describe_cluster(_: DescribeClusterRequest) -> DescribeClusterResponse:
            return await view.describe_cluster(control.known_controller_epoch)

        return (
            DirectApi(LeaderAndIsrRequest, ApiKind.INTER_NODE, control.leader_and_isr),
            DirectApi(StopReplicaRequest, ApiKind.INTER_NODE, control.stop_replica),
            DirectApi(UpdateMetadataRequest, ApiKind.INTER_NODE, control.update_metadata),
            DirectApi(data.ProduceRequest, ApiKind.MUTATION, produce.handle),
            DirectApi(data.FetchRequest, ApiKind.QUERY, FetchRequests(agent.manager).handle),
            DirectApi(data.ListOffsetsRequest, ApiKind.QUERY, offsets.list_offsets),
            DirectApi(data.OffsetsForLeaderEpochRequest, ApiKind.QUERY, offsets.offsets_for_leader_epoch),
            DirectApi(data.DeleteRecordsRequest, ApiKind.MUTATION, DeleteRecordsRequests(agent.manager).handle),
            DirectApi(data.InitProducerIdRequest, ApiKind.MUTATION, self.producer_ids.init),
            DirectApi(data.MetadataRequest, ApiKind.QUERY, view.metadata),
            DirectApi(DescribeReplicasRequest, ApiKind.INTER_NODE, replicas.describe),
            DirectApi(DescribeFindingsRequest, ApiKind.LOCAL, describe_findings),
            DirectApi(ShutdownRequest, ApiKind.MUTATION, self._shut_down),
            DirectApi(AcknowledgeDamageRequest, ApiKind.MUTATION, self._acknowledge_damage),
            DirectApi(DescribeLogDirsRequest, ApiKind.QUERY, log_dirs.describe),
            DirectApi(AlterReplicaLogDirsRequest, ApiKind.MUTATION, log_dirs.alter),
            DirectApi(OnlineLogDirRequest, ApiKind.MUTATION, log_dirs.online),
            DirectApi(DescribeClusterRequest, ApiKind.LOCAL, describe_cluster),
        )

    async def _acknowledge_damage(self, request: AcknowledgeDamageRequest) -> AcknowledgeDamageResponse:
        if request.broker_id != self._agent.broker_id:
            message = f"this is broker {self._agent.broker_id}"
            raise ApiError(ErrorCode.INVALID_REQUEST, message, field="broker_id", value=request.broker_id)
        tp = TopicPartition(request.topic_name, request.partition_index)
        lost = await self._agent.damaged.acknowledge(tp, validate_only=request.validate_only)
        damages = (replica.damage for replica in lost)
        return AcknowledgeDamageResponse(
            tuple(LostOffsets(d.from_offset, d.to_offset, d.is_end_known) for d in damages)
        )

    async def _shut_down(self, request: ShutdownRequest) -> ShutdownResponse:
        """Start the graceful shutdown, as SIGTERM does, if this incarnation of this broker is addressed."""
        if request.broker_id != self._agent.broker_id:
            return ShutdownResponse(ErrorCode.INVALID_REQUEST)
        if request.broker_epoch not in (UNKNOWN_BROKER_EPOCH, self._agent.registration.epoch):
            return ShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)
        _log.info("Shutdown requested", broker=self._agent.broker_id)
        self._request_stop()
        return ShutdownResponse(ErrorCode.NONE)


def _disk_findings(manager: ReplicaManager) -> Iterator[Finding]:
    """The failed directories, logs that cannot be loaded, and lost records that this broker knows of."""
    logs, own_id = manager.logs, manager.own_id
    for path, error in logs.failures.items():
        if path in logs.wait_for_room:
            remedy = "it returns by itself when there is room"
        else:
            remedy = f"when it is mended: 'klamm brokers online-dir {own_id} {path}'"
        yield Finding("failed_log_directory", f"log directory {path} failed: {error}; {remedy}", broker=own_id)
    for (topic, partition), why in logs.unloadable.items():
        yield Finding("offline_replica", f"broker {own_id}: {why}", topic, partition, own_id)
    for directory, names in logs.unacceptable_names.items():
        for name in names:
            detail = f"{directory}: {shortened(name)} cannot be a partition; nothing in it is touched: move it away"
            yield Finding("unacceptable_directory", detail, broker=own_id)
    for replica in (replica for replica in logs.damaged_replicas if not replica.is_in_doubt):
        detail = f"broker {own_id}: {replica.detail}; {replica.remedy(own_id)}"
        yield Finding("damaged_replica", detail, *replica.topic_partition, own_id)
