"""The administrative client: finds the active controller through any node and asks it.

A bootstrap address may be any controller or agent. What the active controller alone may answer is sent to
it; a refusal with NOT_CONTROLLER names the one in office, which is followed. Unreachable nodes are tried
again until the client's timeout.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from admin import record_deletion
from admin.topology import Topology
from cluster.broker import BrokerId, Offset
from cluster.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.partition import TopicPartition
from cluster.requests import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ConfigResource,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedBroker,
    DescribeFeaturesRequest,
    DescribeFeaturesResponse,
    DescribeReassignmentsRequest,
    DescribeReassignmentsResponse,
    DescribeTopicDeletionsRequest,
    DescribeTopicDeletionsResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopic,
    FeatureUpdate,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    ListTopicsRequest,
    ListTopicsResponse,
    MetadataRequest,
    MetadataResponse,
    NewPartitions,
    NewTopic,
    PlanControlledShutdownRequest,
    PlanControlledShutdownResponse,
    PlanFeatureUpdatesRequest,
    PlanFeatureUpdatesResponse,
    ReadStateChangesRequest,
    ReadStateChangesResponse,
    ReassignableTopic,
    ShutdownRequest,
    ShutdownResponse,
    TopicToDelete,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    WatchRequest,
    WatchResponse,
)
from cluster.rpc.client import RpcClient

_T = TypeVar("_T")

_CONNECT_TIMEOUT_MS = 2_000
_PROBE_TIMEOUT_MS = 3_000
"""A node that hangs must not use up the whole timeout while others would answer."""
_RETRY_PAUSE_S = 0.2


class AdminClient:
    """Calls to a cluster that is known by some of its addresses. Use as an async context manager.

    Each call raises PeerUnreachableError when nobody answered within `timeout_ms`, and ApiError when the
    cluster refused.
    """

    def __init__(self, bootstrap: Sequence[str], *, timeout_ms: int = 30_000) -> None:
        assert bootstrap, "a client needs an address to start from"
        self.timeout_s = timeout_ms / 1000
        self.rpc = RpcClient(connect_timeout_ms=_CONNECT_TIMEOUT_MS, connect_timeout_max_ms=_CONNECT_TIMEOUT_MS)
        self._bootstrap = tuple(bootstrap)
        self._timeout_ms = timeout_ms
        self._controller: str | None = None
        self._last_failure = ""

    async def __aenter__(self) -> "AdminClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.rpc.close()

    async def describe_cluster(self, *, require_controller: bool = False) -> DescribeClusterResponse:
        """What the first node that answers knows; with `require_controller`, one that knows who is in office."""

        async def attempt() -> DescribeClusterResponse:
            failures: list[str] = []
            for address in self._bootstrap:
                try:
                    described = await self.describe_node(address)
                except PeerUnreachableError as error:
                    failures.append(str(error))
                    continue
                if described.controller_address or not require_controller:
                    return described
                failures.append(f"{address}: no controller is in office")
            raise PeerUnreachableError(",".join(self._bootstrap), "; ".join(failures))

        return await self._until_timeout(attempt, self.timeout_s)

    async def describe_node(self, address: str, timeout_ms: int = _PROBE_TIMEOUT_MS) -> DescribeClusterResponse:
        """One node's own answer, without a second try."""
        response = await self.rpc.call(address, DescribeClusterRequest(), timeout_ms)
        assert isinstance(response, DescribeClusterResponse)
        return response

    async def describe_controller(self) -> DescribeClusterResponse:
        """The answer of the controller in office, who alone knows every broker's epoch and state for certain."""

        async def attempt() -> DescribeClusterResponse:
            address = await self._controller_address()
            try:
                described = await self.describe_node(address)
            except PeerUnreachableError:
                self._controller = None
                raise
            if described.node_id != described.controller_id:
                self._controller = None
                raise PeerUnreachableError(address, "is not the active controller any more")
            return described

        return await self._until_timeout(attempt, self.timeout_s)

    async def find_brokers(self) -> list[str]:
        """Addresses of the live brokers, as the first node knows them that knows any; one round, no second try.

        A standby controller knows who is in office and no brokers; then that one is asked.
        """
        asked: set[str] = set()
        waiting = list(self._bootstrap)
        while waiting:
            address = waiting.pop(0)
            if address in asked:
                continue
            asked.add(address)
            try:
                described = await self.describe_node(address)
            except PeerUnreachableError:
                continue
            if described.brokers:
                return [b.endpoint.address for b in described.brokers]
            if described.controller_address:
                waiting.insert(0, described.controller_address)
        return []

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> CreateTopicsResponse:
        """Create topics and wait until their partitions have leaders. One result per topic.

        An attempt whose answer was lost is sent again; only after a failover in between may
        TOPIC_ALREADY_EXISTS speak of our own topic. So it is with every mutation here.
        """
        request = CreateTopicsRequest(tuple(topics), self._timeout_ms, validate_only)
        return await self._ask_controller(request, CreateTopicsResponse)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> CreatePartitionsResponse:
        """Add partitions to topics and wait until they have leaders. One result per topic."""
        request = CreatePartitionsRequest(tuple(topics), self._timeout_ms, validate_only)
        return await self._ask_controller(request, CreatePartitionsResponse)

    async def delete_topics(
        self, names: Sequence[str], *, wait_ms: int | None = None, validate_only: bool = False
    ) -> DeleteTopicsResponse:
        """Mark topics for deletion and wait until they are gone, at most `wait_ms`; default: the client's timeout.

        REQUEST_TIMED_OUT means that the deletion is under way: `describe_topic_deletions` tells how far it is.
        """
        topics = tuple(TopicToDelete(name) for name in names)
        request = DeleteTopicsRequest(topics, self._timeout_ms if wait_ms is None else wait_ms, validate_only)
        return await self._ask_controller(request, DeleteTopicsResponse)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, Offset], *, wait_ms: int | None = None, validate_only: bool = False
    ) -> record_deletion.Results:
        """Delete the records below these offsets, -1: below the high watermark. One result per partition.

        REQUEST_TIMED_OUT means that the leader has deleted them, or may have, but not every live follower has.
        """
        limit_ms = self._timeout_ms if wait_ms is None else wait_ms
        return await record_deletion.delete_records(
            Topology(self), offsets, wait_ms=limit_ms, validate_only=validate_only
        )

    async def list_topics(self) -> ListTopicsResponse:
        return await self._ask_controller(ListTopicsRequest(), ListTopicsResponse)

    async def describe_topics(self, names: Sequence[str] | None = None) -> DescribeTopicsResponse:
        """Partitions and configs of these topics, of all with None; an unknown one has its error code."""
        return await self._ask_controller(DescribeTopicsRequest(_all_or(names)), DescribeTopicsResponse)

    async def describe_topic_deletions(self, names: Sequence[str] | None = None) -> DescribeTopicDeletionsResponse:
        """How far the deletions of these topics are, of all with None, and what they wait for."""
        request = DescribeTopicDeletionsRequest(_all_or(names))
        return await self._ask_controller(request, DescribeTopicDeletionsResponse)

    async def alter_partition_reassignments(
        self, topics: Sequence[ReassignableTopic], *, validate_only: bool = False
    ) -> AlterPartitionReassignmentsResponse:
        """Begin, replace or cancel reassignments. Success means accepted and recorded, not completed."""
        request = AlterPartitionReassignmentsRequest(tuple(topics), self._timeout_ms, validate_only)
        return await self._ask_controller(request, AlterPartitionReassignmentsResponse)

    async def list_partition_reassignments(
        self, topics: Sequence[ListPartitionReassignmentsTopics] | None = None
    ) -> ListPartitionReassignmentsResponse:
        """What is being reassigned of these partitions, or at all with None."""
        request = ListPartitionReassignmentsRequest(None if topics is None else tuple(topics), self._timeout_ms)
        return await self._ask_controller(request, ListPartitionReassignmentsResponse)

    async def describe_reassignments(self, names: Sequence[str] | None = None) -> DescribeReassignmentsResponse:
        """How far the reassignments of these topics are, of all with None, and what they wait for."""
        return await self._ask_controller(DescribeReassignmentsRequest(_all_or(names)), DescribeReassignmentsResponse)

    async def elect_leaders(
        self,
        election_type: int,
        partitions: Sequence[ElectLeadersTopic] | None,
        *,
        validate_only: bool = False,
    ) -> ElectLeadersResponse:
        """Elect PREFERRED leaders, or UNCLEAN ones where there is none, of these partitions, of all with None."""
        chosen = None if partitions is None else tuple(partitions)
        request = ElectLeadersRequest(election_type, chosen, self._timeout_ms, validate_only)
        return await self._ask_controller(request, ElectLeadersResponse)

    async def plan_controlled_shutdown(self, broker: BrokerId) -> PlanControlledShutdownResponse:
        """What a controlled shutdown of this broker would do; nothing is changed."""
        return await self._ask_controller(PlanControlledShutdownRequest(broker), PlanControlledShutdownResponse)

    async def shut_down_broker(self, broker: DescribedBroker) -> ShutdownResponse:
        """Ask this incarnation of a broker to leave in order. Returns when it has begun to."""
        request = ShutdownRequest(broker.id, broker.epoch)
        response = await self.rpc.call(broker.endpoint.address, request, _PROBE_TIMEOUT_MS)
        assert isinstance(response, ShutdownResponse)
        return response

    async def describe_configs(self, resources: Sequence[ConfigResource]) -> DescribeConfigsResponse:
        return await self._ask_controller(DescribeConfigsRequest(tuple(resources)), DescribeConfigsResponse)

    async def alter_configs(
        self, resources: Sequence[AlterConfigsResource], *, validate_only: bool = False
    ) -> AlterConfigsResponse:
        """Set and delete single keys. One result per resource, which is changed as a whole or not at all."""
        request = AlterConfigsRequest(tuple(resources), validate_only)
        return await self._ask_controller(request, AlterConfigsResponse)

    async def update_features(self, updates: Sequence[FeatureUpdate]) -> UpdateFeaturesResponse:
        """Raise, lower and remove finalized features. One result per update; the valid ones are written."""
        request = UpdateFeaturesRequest(tuple(updates), self._timeout_ms)
        return await self._ask_controller(request, UpdateFeaturesResponse)

    async def plan_feature_updates(self, updates: Sequence[FeatureUpdate]) -> PlanFeatureUpdatesResponse:
        """What `update_features` would come to; nothing is changed."""
        return await self._ask_controller(PlanFeatureUpdatesRequest(tuple(updates)), PlanFeatureUpdatesResponse)

    async def describe_features(self) -> DescribeFeaturesResponse:
        return await self._ask_controller(DescribeFeaturesRequest(), DescribeFeaturesResponse)

    async def watch(self, topics: Sequence[str] | None = None, *, cursor: str = "") -> AsyncGenerator[WatchResponse]:
        """What happens in the cluster from now on, or after `cursor`; through failovers, without an end.

        Raises PeerUnreachableError when no controller is found for as long as the client's timeout.
        """
        while True:
            address = await self._controller_address()
            try:
                async for response in self.rpc.stream(address, WatchRequest(cursor, _all_or(topics))):
                    assert isinstance(response, WatchResponse)
                    cursor = response.cursor
                    yield response
            except PeerUnreachableError:
                self._controller = None
            except ApiError as error:
                self._follow(error, address)
            await asyncio.sleep(_RETRY_PAUSE_S)

    async def metadata(self, address: str, request: MetadataRequest, timeout_ms: int) -> MetadataResponse:
        """One broker's metadata cache, without a second try."""
        response = await self.rpc.call(address, request, timeout_ms)
        assert isinstance(response, MetadataResponse)
        return response

    async def read_state_changes(self, address: str, topic: str, partition: int) -> ReadStateChangesResponse:
        """One node's state-change records of a partition, without a second try."""
        request = ReadStateChangesRequest(topic, partition)
        response = await self.rpc.call(address, request, self._timeout_ms)
        assert isinstance(response, ReadStateChangesResponse)
        return response

    async def _ask_controller(self, request: Any, expected: type[_T]) -> _T:
        """Ask whoever is in office, and again until the timeout, under one request id."""
        limit_ms = self._timeout_ms
        if hasattr(request, "timeout_ms"):
            # The controller waits as long as it was asked to; its answer comes a little later.
            limit_ms = max(limit_ms, request.timeout_ms) + _PROBE_TIMEOUT_MS
        request_id = uuid4().hex

        async def attempt() -> _T:
            asked = await self._controller_address()
            try:
                response = await self.rpc.call(asked, request, limit_ms, request_id=request_id)
            except PeerUnreachableError:
                self._controller = None
                raise
            except ApiError as error:
                self._follow(error, asked)
                raise PeerUnreachableError(asked, "is not the active controller any more") from error
            assert isinstance(response, expected)
            return response

        return await self._until_timeout(attempt, limit_ms / 1000)

    async def _controller_address(self) -> str:
        if self._controller is None:
            self._controller = (await self.describe_cluster(require_controller=True)).controller_address
        return self._controller

    def _follow(self, error: ApiError, asked: str) -> None:
        """Remember the controller that a refusal names. Any other refusal is raised."""
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise error
        # A standby that names itself has not caught up with its own fall.
        leader = error.leader_address
        self._controller = leader if leader and leader != asked else None

    async def _until_timeout(self, attempt: Callable[[], Awaitable[_T]], limit_s: float) -> _T:
        """Repeat an attempt that finds nobody, until the limit; then say what came of the last one."""
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    try:
                        answer = await attempt()
                    except PeerUnreachableError as error:
                        self._last_failure = str(error).removeprefix(f"{','.join(self._bootstrap)}: ")
                    else:
                        self._last_failure = ""
                        return answer
                    await asyncio.sleep(_RETRY_PAUSE_S)
        except TimeoutError:
            # Often an attempt within this one was cut off, and only that one knows what it failed by.
            why = f": {self._last_failure}" if self._last_failure else ""
            raise PeerUnreachableError(",".join(self._bootstrap), f"no answer within {limit_s:g} s{why}") from None


def _all_or(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
