"""Scripted nodes of a cluster behind real gRPC servers, for tests of clients."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiokafka.record.memory_records import MemoryRecords
from msgspec.structs import replace

from broker_agent.adapters.grpc_server import serve_broker_agent
from broker_agent.log.producer_state import ProducerStates
from broker_agent.log.record_batch import parse_header
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint, LeaderEpoch, Offset
from cluster.model.errors import ApiError, ErrorCode, LogAppendError
from cluster.requests.cluster import (
    NO_ZOOKEEPER,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
    DescribeFindingsRequest,
    DescribeFindingsResponse,
)
from cluster.requests.context import RequestContext
from cluster.requests.data import (
    EARLIEST_TIMESTAMP,
    NO_READ_REPLICA,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from cluster.requests.topics import (
    DescribedTopic,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    ListedTopic,
    ListTopicsRequest,
    ListTopicsResponse,
)
from cluster.rpc.serving import Listener, RpcServer
from controller.adapters.grpc_server import serve_controller

TOPIC = "orders"
FIRST_CONTROLLER = 1001
Refusal = Callable[[ProducePartition], ErrorCode]


class ScriptedSession:
    """A fetch session; `epoch` is that of the next request."""

    def __init__(self, partitions: dict[int, FetchPartition]) -> None:
        self.partitions, self.epoch = partitions, 1


class ScriptedCluster:
    """Three nodes over one set of logs in memory. Tests move leaders and script refusals."""

    def __init__(self, partitions: int) -> None:
        self.servers: dict[int, RpcServer] = {}
        self.leaders: dict[int, tuple[int, int]] = {p: (p % 3, 0) for p in range(partitions)}
        self.batches: dict[int, list[bytes]] = {p: [] for p in range(partitions)}
        self.ends = dict.fromkeys(range(partitions), 0)
        self.producers = {p: ProducerStates() for p in range(partitions)}
        self.producer_ids = 0
        """How many were given."""
        self.gives_producer_ids = True
        self.refusals: list[Refusal] = []
        self.lose_answers = 0
        self.forgets = 0
        """How many batches are acknowledged and not stored."""
        self.controller = FIRST_CONTROLLER
        self.produce_requests = 0
        self.throttle_ms: list[int] = []
        """The throttle times of the next answers to producers; later ones have none."""
        self.without_zookeeper: set[int] = set()
        self.hanging: set[int] = set()
        self.holding: dict[int, asyncio.Event] = {}
        """By node: until when it holds back the answers to fetches, which it has made before."""
        self.read_replicas: dict[int, int] = {}
        """By partition: the follower to which its leader sends consumers that name their rack."""
        self.follower_errors: list[ErrorCode] = []
        """What the next fetches at followers are answered with."""
        self.leader_errors: list[ErrorCode] = []
        """What the next fetches at leaders are answered with."""
        self.uninformed: set[int] = set()
        """The brokers that have not learned of the topic yet."""
        self.denied: set[str] = set()
        """The topics to which brokers say that the caller has no right."""
        self.fetched_from: list[tuple[int, int]] = []
        """(partition, node) of each fetch that got records."""
        self.grants_sessions = True
        self.sessions: dict[int, ScriptedSession] = {}
        self.fetches: list[FetchRequest] = []

    def lead(self, partition: int, broker: int) -> None:
        self.leaders[partition] = (broker, self.leaders[partition][1] + 1)

    def values(self, partition: int) -> list[bytes]:
        return [r.value for batch in self.batches[partition] for r in MemoryRecords(batch).next_batch()]

    def describe(self) -> DescribeClusterResponse:
        brokers = tuple(
            DescribedBroker(BrokerId(i), Endpoint(s.host, s.port), BrokerEpoch(i))
            for i, s in self.servers.items()
            if i < FIRST_CONTROLLER
        )
        address = self.servers[self.controller].address if self.controller >= 0 else ""
        return DescribeClusterResponse("c", ControllerId(self.controller), address, ControllerEpoch(1), brokers)

    def metadata(self) -> MetadataResponse:
        partitions = tuple(
            MetadataPartition(p, ErrorCode.NONE, BrokerId(b), LeaderEpoch(e), (), (), ())
            for p, (b, e) in self.leaders.items()
        )
        brokers = tuple(MetadataBroker(BrokerId(i), s.host, s.port) for i, s in self.servers.items())
        denied = (MetadataTopic(name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ()) for name in self.denied)
        topics = (MetadataTopic(TOPIC, None, ErrorCode.NONE, partitions), *denied)
        return MetadataResponse(brokers, "c", ControllerId(self.controller), topics)

    def append(self, part: ProducePartition) -> Offset:
        batch = MemoryRecords(part.records).next_batch()
        assert batch is not None
        assert batch.validate_crc()
        known = self.producers.setdefault(part.partition, ProducerStates())
        duplicate = known.find_duplicate(parse_header(part.records))
        if duplicate is not None:
            return duplicate.first_offset
        base = self.ends[part.partition]
        if self.forgets:
            self.forgets -= 1
            return Offset(base)
        stored = base.to_bytes(8, "big") + part.records[8:]
        known.update(parse_header(stored))
        self.batches[part.partition].append(stored)
        self.ends[part.partition] += batch.next_offset - batch.base_offset
        return Offset(base)


class ScriptedNode:
    def __init__(self, cluster: ScriptedCluster, node: int) -> None:
        self.cluster, self.node = cluster, node

    async def handle(self, context: RequestContext, request: Any) -> Any:
        if self.node in self.cluster.hanging:
            await asyncio.Event().wait()
        match request:
            case DescribeClusterRequest() | DescribeFindingsRequest():
                if self.node in self.cluster.without_zookeeper:
                    raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, NO_ZOOKEEPER)
                return self._describe(request)
            case MetadataRequest():
                known = self.cluster.metadata()
                return replace(known, topics=()) if self.node in self.cluster.uninformed else known
            case ListTopicsRequest() | DescribeTopicsRequest():
                return self._administer(request)
            case ProduceRequest() | InitProducerIdRequest():
                return self._serve_producer(request)
            case FetchRequest():
                self.cluster.fetches.append(request)
                response = self._fetch_all(request)
                if (released := self.cluster.holding.get(self.node)) is not None:
                    await released.wait()
                if response.error_code is ErrorCode.NONE and not response.partitions:
                    # A fetch without news waits; a script need not wait for long.
                    await asyncio.sleep(min(request.max_wait_ms, 20) / 1000)
                return response
            case ListOffsetsRequest(partitions=parts):
                results = (
                    ListOffsetsResult(
                        TOPIC,
                        p.partition,
                        ErrorCode.NONE,
                        offset=Offset(0 if p.timestamp == EARLIEST_TIMESTAMP else self.cluster.ends[p.partition]),
                    )
                    for p in parts
                )
                return ListOffsetsResponse(tuple(results))
        raise AssertionError(f"no script for {request}")

    def _describe(self, request: DescribeClusterRequest | DescribeFindingsRequest) -> Any:
        if isinstance(request, DescribeFindingsRequest):
            return DescribeFindingsResponse()
        role = "controller" if self.node >= FIRST_CONTROLLER else "broker"
        return replace(self.cluster.describe(), node_id=self.node, node_role=role)

    def _administer(self, request: ListTopicsRequest | DescribeTopicsRequest) -> Any:
        if self.cluster.controller != self.node:
            leader = self.cluster.describe().controller_address
            raise ApiError(ErrorCode.NOT_CONTROLLER, "not active", leader_address=leader)
        if isinstance(request, ListTopicsRequest):
            return ListTopicsResponse((ListedTopic(TOPIC, None, len(self.cluster.leaders), 1),))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeTopicsResponse(tuple(DescribedTopic(t, unknown) for t in request.topics or ()))

    def _serve_producer(self, request: ProduceRequest | InitProducerIdRequest) -> Any:
        if isinstance(request, ProduceRequest):
            return self._produce(request.partitions)
        if not self.cluster.gives_producer_ids:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "an earlier release knows no such call")
        self.cluster.producer_ids += 1
        return InitProducerIdResponse(ErrorCode.NONE, 4000 + self.cluster.producer_ids, 0)

    def _produce(self, parts: tuple[ProducePartition, ...]) -> ProduceResponse:
        cluster = self.cluster
        cluster.produce_requests += 1
        results = []
        for part in parts:
            code = ErrorCode.NONE
            if cluster.leaders[part.partition][0] != self.node:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif cluster.refusals:
                code = cluster.refusals[0](part)
                if code is not ErrorCode.MESSAGE_TOO_LARGE:
                    cluster.refusals.pop(0)
            base = Offset(-1)
            if code is ErrorCode.NONE:
                try:
                    base = cluster.append(part)
                except LogAppendError as error:
                    code = error.code
            results.append(ProducePartitionResult(TOPIC, part.partition, code, base))
        if cluster.lose_answers:
            cluster.lose_answers -= 1
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "the answer is lost, the records are not")
        return ProduceResponse(tuple(results), cluster.throttle_ms.pop(0) if cluster.throttle_ms else 0)

    def _fetch_all(self, request: FetchRequest) -> FetchResponse:
        """Answer a fetch without a session, one that asks for a session, or the next one in a session."""
        sessions, id_ = self.cluster.sessions, request.session_id
        if request.session_epoch <= 0:
            sessions.pop(id_, None)
            is_granted = self.cluster.grants_sessions and request.session_epoch == 0
            if is_granted:
                id_ = max(sessions, default=100 * self.node) + 1
                sessions[id_] = ScriptedSession({p.partition: p for p in request.partitions})
            found = tuple(self._fetch(p, request.rack_id) for p in request.partitions)
            return FetchResponse(ErrorCode.NONE, found, session_id=id_ if is_granted else 0)
        session = sessions.get(id_)
        if session is None:
            return FetchResponse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            return FetchResponse(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch += 1
        for forgotten in request.forgotten_partitions:
            session.partitions.pop(forgotten.partition)
        named = {p.partition: p for p in request.partitions}
        session.partitions |= named
        found = tuple(self._fetch(p, request.rack_id) for p in session.partitions.values())
        news = (d for d in found if d.partition in named or has_news(d))
        return FetchResponse(ErrorCode.NONE, tuple(news), session_id=id_)

    def _fetch(self, part: FetchPartition, rack: str) -> FetchPartitionData:
        follower = self.cluster.read_replicas.get(part.partition, -1) if rack else -1
        if self.cluster.leaders[part.partition][0] != self.node:
            if follower != self.node:
                return FetchPartitionData(TOPIC, part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self.cluster.follower_errors:
                return FetchPartitionData(TOPIC, part.partition, self.cluster.follower_errors.pop(0))
        elif self.cluster.leader_errors:
            return FetchPartitionData(TOPIC, part.partition, self.cluster.leader_errors.pop(0))
        elif follower >= 0:
            return FetchPartitionData(TOPIC, part.partition, ErrorCode.NONE, preferred_read_replica=BrokerId(follower))
        end = Offset(self.cluster.ends[part.partition])
        if part.fetch_offset > end:
            return FetchPartitionData(TOPIC, part.partition, ErrorCode.OFFSET_OUT_OF_RANGE, end, end, Offset(0))
        found = b"".join(
            b
            for b in self.cluster.batches[part.partition]
            if MemoryRecords(b).next_batch().next_offset > part.fetch_offset
        )
        if found:
            self.cluster.fetched_from.append((part.partition, self.node))
        return FetchPartitionData(TOPIC, part.partition, ErrorCode.NONE, end, end, Offset(0), records=found)


def has_news(data: FetchPartitionData) -> bool:
    """Whether a broker names a partition in a session that the request did not name."""
    return bool(data.records) or data.error_code is not ErrorCode.NONE or data.preferred_read_replica != NO_READ_REPLICA


@asynccontextmanager
async def served_cluster() -> AsyncIterator[ScriptedCluster]:
    """Three brokers and a controller."""
    scripted = ScriptedCluster(partitions=12)
    async with AsyncExitStack() as stack:
        for node in range(3):
            server = await serve_broker_agent(Listener("127.0.0.1:0"), ScriptedNode(scripted, node), Metrics())
            scripted.servers[node] = server
            stack.push_async_callback(server.stop, 0)
        server = await serve_controller(Listener("127.0.0.1:0"), ScriptedNode(scripted, FIRST_CONTROLLER), Metrics())
        scripted.servers[FIRST_CONTROLLER] = server
        stack.push_async_callback(server.stop, 0)
        yield scripted
