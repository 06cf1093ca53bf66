"""The client that deletes records, over real gRPC: which leaders it asks, when it asks again, and when it gives up."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from admin.connecting.client import AdminClient
from broker_agent.adapters.grpc_server import serve_broker_agent
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribeClusterRequest, DescribeClusterResponse, DescribedBroker
from cluster.requests.context import RequestContext
from cluster.requests.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from cluster.requests.topics import DescribedTopic, DescribeTopicsRequest, DescribeTopicsResponse
from cluster.rpc.serving import Listener, RpcServer
from controller.adapters.grpc_server import serve_controller
from tests.timeouts import TIMEOUT_S

TOPIC = "orders"
CONTROLLER = 1001


class Script:
    """Two brokers and a controller. `leaders` of the partitions; `answers` come before the usual one, which is NONE."""

    def __init__(self) -> None:
        self.servers: dict[int, RpcServer] = {}
        self.leaders = [0, 1, 0]
        self.answers: list[tuple[ErrorCode, int]] = []
        self.asked: list[tuple[int, DeleteRecordsRequest]] = []

    def describe(self) -> DescribeClusterResponse:
        brokers = tuple(
            DescribedBroker(BrokerId(i), Endpoint(self.servers[i].host, self.servers[i].port), BrokerEpoch(i))
            for i in range(2)
        )
        address = self.servers[CONTROLLER].address
        return DescribeClusterResponse("c", ControllerId(CONTROLLER), address, ControllerEpoch(1), brokers)

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        states = tuple(
            MetadataPartition(p, ErrorCode.NONE, BrokerId(b), LeaderEpoch(0), (), (), ())
            for p, b in enumerate(self.leaders)
        )
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topics = tuple(
            MetadataTopic(t, None, ErrorCode.NONE, states) if t == TOPIC else MetadataTopic(t, None, unknown)
            for t in request.topics or ()
        )
        brokers = tuple(MetadataBroker(BrokerId(i), s.host, s.port) for i, s in self.servers.items() if i != CONTROLLER)
        return MetadataResponse(brokers, "c", ControllerId(CONTROLLER), topics)


class Node:
    def __init__(self, script: Script, node: int) -> None:
        self.script, self.node = script, node

    async def handle(self, context: RequestContext, request: Any) -> Any:
        match request:
            case DescribeClusterRequest():
                return self.script.describe()
            case MetadataRequest():
                return self.script.metadata(request)
            case DescribeTopicsRequest(topics=topics):
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return DescribeTopicsResponse(tuple(DescribedTopic(t, unknown) for t in topics or ()))
            case DeleteRecordsRequest(partitions=items):
                self.script.asked.append((self.node, request))
                return DeleteRecordsResponse(tuple(map(self._delete, items)))
        raise AssertionError(f"no script for {request}")

    def _delete(self, item: DeleteRecordsPartition) -> DeleteRecordsResult:
        code, low_watermark = ErrorCode.NONE, int(item.offset)
        if self.script.leaders[item.partition] != self.node:
            code, low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        elif self.script.answers:
            code, low_watermark = self.script.answers.pop(0)
        return DeleteRecordsResult(item.topic, item.partition, code, Offset(low_watermark))


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    script = Script()
    async with AsyncExitStack() as stack:
        for node in range(2):
            script.servers[node] = await serve_broker_agent(Listener("127.0.0.1:0"), Node(script, node), Metrics())
            stack.push_async_callback(script.servers[node].stop, 0)
        server = await serve_controller(Listener("127.0.0.1:0"), Node(script, CONTROLLER), Metrics())
        script.servers[CONTROLLER] = server
        stack.push_async_callback(server.stop, 0)
        yield script


async def delete(
    script: Script, *offsets: tuple[str, int, int], wait_ms: int = TIMEOUT_S * 1000, validate_only: bool = False
) -> list[tuple[str, int, ErrorCode, int]]:
    wanted = {TopicPartition(topic, partition): Offset(offset) for topic, partition, offset in offsets}
    async with AdminClient([s.address for s in script.servers.values()], timeout_ms=TIMEOUT_S * 1000) as client:
        results = await client.delete_records(wanted, wait_ms=wait_ms, validate_only=validate_only)
    assert list(results) == list(wanted)
    return [(r.topic, r.partition, r.error_code, r.low_watermark) for r in results.values()]


async def test_each_leader_is_asked_once_for_all_of_its_partitions(script: Script) -> None:
    assert await delete(script, (TOPIC, 0, 5), (TOPIC, 1, 0), (TOPIC, 2, 7), validate_only=True) == [
        (TOPIC, 0, ErrorCode.NONE, 5),
        (TOPIC, 1, ErrorCode.NONE, 0),
        (TOPIC, 2, ErrorCode.NONE, 7),
    ]
    asked = {node: [(i.partition, i.offset) for i in request.partitions] for node, request in script.asked}
    assert (len(script.asked), asked) == (2, {0: [(0, 5), (2, 7)], 1: [(1, 0)]})
    assert all(request.validate_only and 0 < request.timeout_ms <= TIMEOUT_S * 1000 for _, request in script.asked)


async def test_whoever_leads_next_is_asked_again_and_a_refusal_that_stays_is_reported(script: Script) -> None:
    script.answers = [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (ErrorCode.POLICY_VIOLATION, -1)]
    assert await delete(script, (TOPIC, 0, 5), (TOPIC, 2, 7)) == [
        (TOPIC, 0, ErrorCode.NONE, 5),
        (TOPIC, 2, ErrorCode.POLICY_VIOLATION, -1),
    ]
    assert [[i.partition for i in request.partitions] for _, request in script.asked] == [[0, 2], [0]]


async def test_what_does_not_exist_is_refused_and_the_rest_is_done(script: Script) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await delete(script, ("nowhere", 0, 1), (TOPIC, 9, 1), (TOPIC, 1, 4)) == [
        ("nowhere", 0, unknown, -1),
        (TOPIC, 9, unknown, -1),
        (TOPIC, 1, ErrorCode.NONE, 4),
    ]
    assert len(script.asked) == 1


async def test_a_leader_that_is_gone_ends_with_the_time(script: Script) -> None:
    await script.servers[1].stop(0)
    assert await delete(script, (TOPIC, 1, 5), wait_ms=500) == [(TOPIC, 1, ErrorCode.REQUEST_TIMED_OUT, -1)]


async def test_a_leader_that_says_its_followers_are_late_is_not_asked_again(script: Script) -> None:
    script.answers = [(ErrorCode.REQUEST_TIMED_OUT, 2)]
    assert await delete(script, (TOPIC, 0, 5)) == [(TOPIC, 0, ErrorCode.REQUEST_TIMED_OUT, 2)]
    assert len(script.asked) == 1
