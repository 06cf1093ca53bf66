"""Requests above the limit of a listener: refused by name, and split by klamm's own clients where that is possible."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from admin.connecting.client import AdminClient
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Delivery, Producer
from broker_agent.adapters.grpc_server import serve_broker_agent
from cluster.aio.clock import SystemClock
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    Offset,
)
from cluster.model.errors import ErrorCode, PeerUnreachableError, RequestTooLargeError
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribeClusterRequest, DescribeClusterResponse, DescribedBroker
from cluster.requests.context import RequestContext
from cluster.requests.control import StopReplicaPartitionState, StopReplicaRequest
from cluster.requests.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from cluster.requests.elections import ElectLeadersRequest, ElectLeadersResponse
from cluster.requests.plans import Plan, PlannedRequest
from cluster.requests.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse, NewTopic
from cluster.rpc.client import RpcClient
from cluster.rpc.methods import encode_request
from cluster.rpc.serving import Listener, RpcServer
from controller.adapters.grpc_broker_client import GrpcBrokerClient
from controller.adapters.grpc_server import serve_controller
from tests.timeouts import TIMEOUT_S

LIMIT = 4096
TOPIC = "orders-" + "x" * 150
PARTITIONS = range(40)


class Node:
    """A controller and the only broker at once; takes everything and keeps the size of each request."""

    def __init__(self) -> None:
        self.servers: list[RpcServer] = []
        self.received: list[Any] = []

    async def handle(self, _: RequestContext, request: Any) -> Any:
        controller, broker = self.servers
        self.received.append(request)
        match request:
            case DescribeClusterRequest():
                endpoint = Endpoint(broker.host, broker.port)
                brokers = (DescribedBroker(BrokerId(1), endpoint, BrokerEpoch(1)),)
                epoch = ControllerEpoch(1)
                return DescribeClusterResponse("c", ControllerId(1001), controller.address, epoch, brokers)
            case MetadataRequest():
                one = BrokerId(1)
                partitions = tuple(
                    MetadataPartition(p, ErrorCode.NONE, one, LeaderEpoch(0), (one,), (one,), ()) for p in PARTITIONS
                )
                known = (MetadataBroker(one, broker.host, broker.port),)
                return MetadataResponse(
                    known, "c", ControllerId(1001), (MetadataTopic(TOPIC, None, ErrorCode.NONE, partitions),)
                )
            case CreateTopicsRequest():
                results = tuple(CreatableTopicResult(topic.name, ErrorCode.NONE) for topic in request.topics)
                plan = Plan(requests=(PlannedRequest(BrokerId(1), "LeaderAndIsr", len(results)),))
                return CreateTopicsResponse(results, plan if request.validate_only else None)
            case ElectLeadersRequest() | InitProducerIdRequest():
                is_election = isinstance(request, ElectLeadersRequest)
                return ElectLeadersResponse(()) if is_election else InitProducerIdResponse(ErrorCode.NONE, 1, 0)
            case DeleteRecordsRequest():
                return DeleteRecordsResponse(
                    tuple(DeleteRecordsResult(p.topic, p.partition, ErrorCode.NONE) for p in request.partitions)
                )
            case ProduceRequest():
                return ProduceResponse(
                    tuple(
                        ProducePartitionResult(p.topic, p.partition, ErrorCode.NONE, Offset(0))
                        for p in request.partitions
                    )
                )
        raise AssertionError(request)

    def of(self, kind: type) -> list[Any]:
        return [request for request in self.received if isinstance(request, kind)]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node()
    async with AsyncExitStack() as stack:
        for serve in (serve_controller, serve_broker_agent):
            server = await serve(Listener("127.0.0.1:0", "PLAINTEXT", LIMIT), node, Metrics())
            stack.push_async_callback(server.stop, 0)
            node.servers.append(server)
        yield node


@pytest.fixture
async def client(node: Node) -> AsyncIterator[AdminClient]:
    async with AdminClient([s.address for s in node.servers], timeout_ms=TIMEOUT_S * 1000) as connected:
        yield connected


@pytest.mark.rule("LS-4")
async def test_a_request_above_the_limit_is_refused_by_name_and_the_connection_stays(node: Node) -> None:
    rpc, address = RpcClient(), node.servers[0].address
    request = CreateTopicsRequest((NewTopic("t" * LIMIT),))
    size = len(encode_request(request))
    try:
        with pytest.raises(RequestTooLargeError) as refused:
            await rpc.call(address, request, TIMEOUT_S * 1000)
        error = refused.value
        assert (error.code, error.size, error.limit) == (ErrorCode.MESSAGE_TOO_LARGE, size, LIMIT)
        assert f"{address} takes requests of at most {LIMIT} bytes (socket.request.max.bytes)" in str(error)
        assert f"has {size}" in str(error)
        await rpc.call(address, CreateTopicsRequest((NewTopic("t"),)), TIMEOUT_S * 1000)
    finally:
        await rpc.close()


@pytest.mark.rule("LS-4")
@pytest.mark.parametrize("validate_only", [False, True])
async def test_the_administrative_client_splits_what_is_too_large(
    node: Node, client: AdminClient, *, validate_only: bool
) -> None:
    new = [NewTopic(f"topic-{number:04}-{'x' * 100}", 1, 1) for number in range(200)]
    response = await client.create_topics(new, validate_only=validate_only)
    assert [result.name for result in response.topics] == [topic.name for topic in new]
    parts = node.of(CreateTopicsRequest)
    assert len(parts) > 4
    assert all(len(encode_request(part)) <= LIMIT for part in parts)
    planned = 0 if response.plan is None else sum(request.partitions for request in response.plan.requests)
    assert planned == (200 if validate_only else 0)


@pytest.mark.rule("LS-4")
async def test_a_request_with_one_item_that_is_too_large_is_not_sent_in_parts(node: Node, client: AdminClient) -> None:
    with pytest.raises(RequestTooLargeError, match=r"socket\.request\.max\.bytes"):
        await client.create_topics([NewTopic("small"), NewTopic("large", configs={"a": "x" * LIMIT})])
    assert node.of(CreateTopicsRequest) == []


@pytest.mark.rule("LS-4")
async def test_deletion_of_records_is_split(node: Node, client: AdminClient) -> None:
    offsets = {TopicPartition(TOPIC, p): Offset(5) for p in PARTITIONS}
    assert (
        len(encode_request(DeleteRecordsRequest(1, tuple(DeleteRecordsPartition(*tp, o) for tp, o in offsets.items()))))
        > LIMIT
    )
    results = await client.delete_records(offsets)
    assert {tp: result.error_code for tp, result in results.items()} == dict.fromkeys(offsets, ErrorCode.NONE)


@pytest.mark.rule("LS-4")
@pytest.mark.parametrize("acks", [-1, 0])
async def test_the_producer_sends_batches_apart_that_are_too_large_together(
    node: Node, client: AdminClient, acks: int
) -> None:
    deliveries: list[Delivery] = []
    async with Producer(Topology(client), SystemClock(), ProducerOptions(acks=acks), deliveries.append) as producer:
        for partition in PARTITIONS:
            await producer.send(TOPIC, None, b"x" * 1000, partition)
    assert (producer.totals.acknowledged, producer.totals.failed) == (len(PARTITIONS), 0)
    stored = [part.partition for request in node.of(ProduceRequest) for part in request.partitions]
    assert sorted(stored) == list(PARTITIONS)


@pytest.mark.rule("LS-4")
async def test_a_batch_that_is_too_large_is_split_and_a_record_is_refused_by_name(
    node: Node, client: AdminClient
) -> None:
    deliveries: list[Delivery] = []
    async with Producer(Topology(client), SystemClock(), ProducerOptions(), deliveries.append) as producer:
        for _ in range(10):
            await producer.send(TOPIC, None, b"x" * 1000, 0)
        await producer.send(TOPIC, None, b"x" * LIMIT, 1)
    assert (producer.totals.acknowledged, producer.totals.failed) == (10, 1)
    (failed,) = [delivery for delivery in deliveries if delivery.error is not None]
    assert failed.topic_partition.partition == 1
    assert "socket.request.max.bytes" in str(failed.error)


@pytest.mark.rule("LS-4", "RQ-32")
async def test_a_control_request_above_the_limit_is_not_taken_for_answered(node: Node) -> None:
    state = StopReplicaPartitionState("t" * LIMIT, 0, LeaderEpoch(0), False)
    request = StopReplicaRequest(ControllerId(1001), ControllerEpoch(1), BrokerEpoch(1), (state,))
    broker = Broker(BrokerId(1), (Endpoint(node.servers[1].host, node.servers[1].port),))
    client = GrpcBrokerClient(Settings())
    try:
        with pytest.raises(PeerUnreachableError, match="at most"):
            await client.send(broker, request)
    finally:
        await client.close()
