"""Producer, consumer and administrative client over real gRPC, against nodes that answer by a script."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords
from msgspec.structs import replace

from admin.accumulator import ProducerOptions
from admin.brokers_view import UNKNOWN_PARTITION_EPOCH, described_topics, listed_topics, of_controller_or_brokers
from admin.client import AdminClient
from admin.consumer import Consumer, UnreadableBatchError, list_offsets
from admin.producer import Delivery, Producer
from admin.topology import Topology
from broker_agent.adapters.grpc_server import serve_broker_agent
from cluster.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint, LeaderEpoch, Offset
from cluster.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.process.clock import SystemClock
from cluster.process.metrics import Metrics
from cluster.requests.cluster import (
    NO_ZOOKEEPER,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
)
from cluster.requests.context import RequestContext
from cluster.requests.data import (
    EARLIEST_TIMESTAMP,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
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
from tests.timeouts import TIMEOUT_S

TOPIC = "orders"
FIRST_CONTROLLER = 1001
Refusal = Callable[[ProducePartition], ErrorCode]


class ScriptedCluster:
    """Three nodes over one set of logs in memory. Tests move leaders and script refusals."""

    def __init__(self, partitions: int) -> None:
        self.servers: dict[int, RpcServer] = {}
        self.leaders: dict[int, tuple[int, int]] = {p: (p % 3, 0) for p in range(partitions)}
        self.batches: dict[int, list[bytes]] = {p: [] for p in range(partitions)}
        self.ends = dict.fromkeys(range(partitions), 0)
        self.refusals: list[Refusal] = []
        self.lose_answers = 0
        self.controller = FIRST_CONTROLLER
        self.produce_requests = 0
        self.without_zookeeper: set[int] = set()
        self.hanging: set[int] = set()

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
        topics = (MetadataTopic(TOPIC, None, ErrorCode.NONE, partitions),)
        return MetadataResponse(brokers, "c", ControllerId(self.controller), topics)

    def append(self, part: ProducePartition) -> Offset:
        batch = MemoryRecords(part.records).next_batch()
        assert batch is not None
        assert batch.validate_crc()
        base = self.ends[part.partition]
        self.batches[part.partition].append(base.to_bytes(8, "big") + part.records[8:])
        self.ends[part.partition] += batch.next_offset - batch.base_offset
        return Offset(base)


class ScriptedNode:
    def __init__(self, cluster: ScriptedCluster, node: int) -> None:
        self.cluster, self.node = cluster, node

    async def handle(self, context: RequestContext, request: Any) -> Any:
        if self.node in self.cluster.hanging:
            await asyncio.Event().wait()
        match request:
            case DescribeClusterRequest():
                if self.node in self.cluster.without_zookeeper:
                    raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, NO_ZOOKEEPER)
                role = "controller" if self.node >= FIRST_CONTROLLER else "broker"
                return replace(self.cluster.describe(), node_id=self.node, node_role=role)
            case MetadataRequest():
                return self.cluster.metadata()
            case ListTopicsRequest() | DescribeTopicsRequest():
                return self._administer(request)
            case ProduceRequest(partitions=parts):
                return self._produce(parts)
            case FetchRequest(partitions=parts):
                return FetchResponse(ErrorCode.NONE, tuple(self._fetch(p) for p in parts))
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

    def _administer(self, request: ListTopicsRequest | DescribeTopicsRequest) -> Any:
        if self.cluster.controller != self.node:
            leader = self.cluster.describe().controller_address
            raise ApiError(ErrorCode.NOT_CONTROLLER, "not active", leader_address=leader)
        if isinstance(request, ListTopicsRequest):
            return ListTopicsResponse((ListedTopic(TOPIC, None, len(self.cluster.leaders), 1),))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeTopicsResponse(tuple(DescribedTopic(t, unknown) for t in request.topics or ()))

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
            base = cluster.append(part) if code is ErrorCode.NONE else Offset(-1)
            results.append(ProducePartitionResult(TOPIC, part.partition, code, base))
        if cluster.lose_answers:
            cluster.lose_answers -= 1
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "the answer is lost, the records are not")
        return ProduceResponse(tuple(results))

    def _fetch(self, part: FetchPartition) -> FetchPartitionData:
        if self.cluster.leaders[part.partition][0] != self.node:
            return FetchPartitionData(TOPIC, part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        end = Offset(self.cluster.ends[part.partition])
        if part.fetch_offset > end:
            return FetchPartitionData(TOPIC, part.partition, ErrorCode.OFFSET_OUT_OF_RANGE, end, end, Offset(0))
        found = b"".join(
            b
            for b in self.cluster.batches[part.partition]
            if MemoryRecords(b).next_batch().next_offset > part.fetch_offset
        )
        return FetchPartitionData(TOPIC, part.partition, ErrorCode.NONE, end, end, Offset(0), records=found)


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
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


@pytest.fixture
async def client(cluster: ScriptedCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient([s.address for s in cluster.servers.values()], timeout_ms=TIMEOUT_S * 1000) as connected:
        yield connected


async def produce(
    client: AdminClient, values: list[bytes], options: ProducerOptions | None = None, partition: int | None = None
) -> tuple[Producer, list[Delivery]]:
    deliveries: list[Delivery] = []
    producer = Producer(Topology(client), SystemClock(), options, deliveries.append)
    async with producer:
        for value in values:
            await producer.send(TOPIC, None, value, partition)
    return producer, deliveries


async def test_what_is_produced_is_read_back_in_order_per_partition(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    values = [b"%d" % n for n in range(5_000)]
    producer, deliveries = await produce(client, values, ProducerOptions(batch_size=2_000))
    assert producer.totals.acknowledged == 5_000
    assert sorted(int(v or 0) for d in deliveries for v in d.values) == list(range(5_000))

    topology = Topology(client)
    partitions = await topology.partitions(TOPIC)
    starts = await list_offsets(topology, TOPIC, dict.fromkeys(partitions, EARLIEST_TIMESTAMP), TIMEOUT_S)
    read: dict[int, list[bytes | None]] = {p: [] for p in partitions}
    ends = {p: Offset(e) for p, e in cluster.ends.items()}
    async with Consumer(topology, TOPIC, starts, until=ends) as consumer:
        async for part in consumer.fetched():
            read[part.partition] += [r.value for r in part.records]
    assert read == {p: cluster.values(p) for p in partitions}
    assert all(len(values) > 0 for values in read.values())
    assert all([int(v or 0) for v in values] == sorted(int(v or 0) for v in values) for values in read.values())


async def test_a_moved_leader_is_followed_without_loss_or_disorder(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    producer = Producer(Topology(client), SystemClock(), ProducerOptions(batch_size=500))
    async with producer:
        for number in range(2_000):
            if number == 1_000:
                await producer.flush()
                cluster.lead(0, 2)
            await producer.send(TOPIC, None, b"%d" % number, 0)
    assert [int(v) for v in cluster.values(0)] == list(range(2_000))
    assert producer.totals.batches_retried >= 1


async def test_a_lost_answer_is_sent_again_and_counted(cluster: ScriptedCluster, client: AdminClient) -> None:
    cluster.lose_answers = 1
    producer, deliveries = await produce(client, [b"a", b"b"], partition=1)
    assert cluster.values(1) == [b"a", b"b", b"a", b"b"]
    assert (producer.totals.acknowledged, producer.totals.batches_retried) == (2, 1)
    assert [d.base_offset for d in deliveries] == [2]


async def test_a_refusal_that_no_retry_can_mend_fails_the_batch_at_once(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.refusals = [lambda _: ErrorCode.INVALID_RECORD]
    producer, deliveries = await produce(client, [b"a"], partition=0)
    assert (producer.totals.acknowledged, producer.totals.failed) == (0, 1)
    assert deliveries[0].error is not None
    assert deliveries[0].error.code is ErrorCode.INVALID_RECORD


async def test_a_retriable_refusal_is_given_up_after_the_delivery_timeout(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.refusals = [lambda _: ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
    producer, _ = await produce(client, [b"a"], ProducerOptions(delivery_timeout_ms=1_500), partition=0)
    assert (producer.totals.acknowledged, producer.totals.failed) == (0, 1)
    assert "NOT_ENOUGH_REPLICAS" in str(producer.totals.first_error)


async def test_a_batch_above_the_topics_limit_is_split_until_it_fits(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.refusals = [lambda part: ErrorCode.MESSAGE_TOO_LARGE if len(part.records) > 300 else ErrorCode.NONE] * 1000
    values = [b"%050d" % n for n in range(40)]
    producer, _ = await produce(client, values, partition=0)
    assert cluster.values(0) == values
    assert producer.totals.acknowledged == 40


async def test_batches_due_at_one_leader_share_a_request(cluster: ScriptedCluster, client: AdminClient) -> None:
    producer = Producer(Topology(client), SystemClock(), ProducerOptions(linger_ms=10_000))
    async with producer:
        for partition in range(6):
            await producer.send(TOPIC, None, b"x", partition)
    assert cluster.produce_requests == 3


async def test_a_full_buffer_makes_the_caller_wait_and_nothing_is_lost(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    options = ProducerOptions(buffer_memory=5_000, batch_size=1_000, linger_ms=10_000)
    producer, _ = await produce(client, [b"x" * 100] * 300, options)
    assert producer.totals.acknowledged == 300


async def test_an_unknown_topic_is_refused_by_name(client: AdminClient) -> None:
    async with Producer(Topology(client), SystemClock()) as producer:
        with pytest.raises(ApiError, match="'no-such-topic' does not exist"):
            await producer.send("no-such-topic", None, b"x")


async def test_an_unknown_partition_and_an_oversized_record_are_refused_before_anything_is_sent(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    async with Producer(Topology(client), SystemClock()) as producer:
        with pytest.raises(ApiError, match="no partition 99"):
            await producer.send(TOPIC, None, b"x", 99)
        with pytest.raises(ApiError, match=r"max\.request\.size"):
            await producer.send(TOPIC, None, b"x" * 2_000_000)
    assert cluster.produce_requests == 0


async def test_a_consumer_follows_a_moved_leader_and_starts_in_the_middle_of_a_batch(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    await produce(client, [b"%d" % n for n in range(10)], partition=0)
    topology = Topology(client)
    await topology.partitions(TOPIC)
    cluster.lead(0, 1)
    async with Consumer(topology, TOPIC, {0: Offset(4)}, until={0: Offset(9)}) as consumer:
        read = [r.value async for part in consumer.fetched() for r in part.records]
    assert read == [b"4", b"5", b"6", b"7", b"8"]


async def test_a_slow_reader_gets_the_last_records_of_every_partition(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    # One is with the reader, eight are in the queue, and the last one waits for room there.
    wanted = range(10)
    for partition in wanted:
        cluster.lead(partition, 0)
        await produce(client, [b"%d" % partition], partition=partition)
    topology = Topology(client)
    await topology.partitions(TOPIC)
    starts, ends = dict.fromkeys(wanted, Offset(0)), {p: Offset(cluster.ends[p]) for p in wanted}
    read: list[int] = []
    async with Consumer(topology, TOPIC, starts, until=ends) as consumer:
        async for part in consumer.fetched():
            if not read:
                # Long enough for all to be fetched.
                await asyncio.sleep(0.5)
            read.append(part.partition)
    assert sorted(read) == list(wanted)


async def test_an_older_leadership_never_replaces_a_newer_one(cluster: ScriptedCluster, client: AdminClient) -> None:
    topology = Topology(client)
    cluster.leaders[0] = (1, 7)
    await topology.partitions(TOPIC)
    cluster.leaders[0] = (2, 6)
    await topology.refresh(TOPIC)
    leader = topology.leader(TOPIC, 0)
    assert leader is not None
    assert (leader.broker, leader.epoch) == (1, 7)


async def test_looking_for_the_leaders_of_two_topics_at_once_bears_brokers_that_are_silent_for_both(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    topology = Topology(client)
    await topology.partitions(TOPIC)
    leader = topology.leader(TOPIC, 0)
    for server in cluster.servers.values():
        await server.stop(0)
    await asyncio.gather(topology.refresh(TOPIC), topology.refresh("another"))
    assert topology.leader(TOPIC, 0) == leader


async def test_an_offset_outside_of_the_log_is_raised_to_the_reader(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    topology = Topology(client)
    await topology.partitions(TOPIC)
    async with Consumer(topology, TOPIC, {0: Offset(99)}) as consumer:
        with pytest.raises(ApiError) as refused:
            await anext(consumer.fetched())
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.rule("R7.19")
async def test_a_bad_batch_ends_the_reading_with_what_it_is_and_how_to_pass_it(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    for values in ([b"a", b"b"], [b"c", b"d", b"e"], [b"f"]):
        await produce(client, values, partition=0)
    good = cluster.batches[0][1]
    cluster.batches[0][1] = good[:-1] + bytes([good[-1] ^ 1])
    topology = Topology(client)
    await topology.partitions(TOPIC)
    until = {0: Offset(6)}
    async with Consumer(topology, TOPIC, {0: Offset(0)}, until=until) as consumer:
        fetched = consumer.fetched()
        assert [r.value for r in (await anext(fetched)).records] == [b"a", b"b"]
        with pytest.raises(UnreadableBatchError, match="orders-0: the batch at offset 2 .*checksum") as refused:
            await anext(fetched)
    assert str(refused.value).endswith(": klamm consume orders --partition 0 --offset 5")
    async with Consumer(topology, TOPIC, {0: refused.value.next_offset}, until=until) as consumer:
        assert [r.value async for part in consumer.fetched() for r in part.records] == [b"f"]


async def test_the_client_follows_a_controller_that_moved() -> None:
    scripted = ScriptedCluster(partitions=1)
    async with AsyncExitStack() as stack:
        for node in (FIRST_CONTROLLER, FIRST_CONTROLLER + 1):
            server = await serve_controller(Listener("127.0.0.1:0"), ScriptedNode(scripted, node), Metrics())
            scripted.servers[node] = server
            stack.push_async_callback(server.stop, 0)
        async with AdminClient([scripted.servers[FIRST_CONTROLLER].address], timeout_ms=TIMEOUT_S * 1000) as client:
            assert len((await client.list_topics()).topics) == 1
            scripted.controller = FIRST_CONTROLLER + 1
            assert len((await client.list_topics()).topics) == 1
            scripted.controller = -1
            asyncio.get_running_loop().call_later(0.5, setattr, scripted, "controller", FIRST_CONTROLLER)
            assert len((await client.list_topics()).topics) == 1
            described = await client.describe_topics([TOPIC])
            assert described.topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("unhelpful", ["without_zookeeper", "hanging"])
async def test_the_search_goes_on_behind_a_node_that_does_not_know(cluster: ScriptedCluster, unhelpful: str) -> None:
    setattr(cluster, unhelpful, {FIRST_CONTROLLER})
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0, 1, 2)]
    async with AdminClient(addresses, timeout_ms=TIMEOUT_S * 1000) as client:
        assert (await client.describe_cluster()).node_role == "broker"
        producer, _ = await produce(client, [b"saved"], partition=0)
        assert producer.totals.acknowledged == 1
        topology = Topology(client)
        await topology.partitions(TOPIC)
        async with Consumer(topology, TOPIC, {0: Offset(0)}, until={0: Offset(1)}) as consumer:
            assert [r.value async for part in consumer.fetched() for r in part.records] == [b"saved"]


async def failure_of(client: AdminClient, text: str) -> str:
    """What it says when it gives up. A slow machine may not get as far as the answers in time: again until it does."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with pytest.raises(PeerUnreachableError) as gave_up:
                await client.create_topics([])
            if text in str(gave_up.value):
                return str(gave_up.value)


async def test_a_client_that_gives_up_says_once_what_each_kind_of_node_answered(cluster: ScriptedCluster) -> None:
    cluster.controller = -1
    await cluster.servers[FIRST_CONTROLLER].stop(0)
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0, 1, 2)]
    names = {addresses[0]: "controller 1001"}
    async with AdminClient(addresses, timeout_ms=1_000, names=names) as client:
        assert await failure_of(client, "2 running") == (
            "no active controller within 1 s: controller 1001 not answering (connection refused);"
            " brokers 0, 1, 2 running"
        )


async def test_a_cluster_of_which_nothing_runs_is_named_by_its_addresses(cluster: ScriptedCluster) -> None:
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0)]
    await stop_all(cluster)
    async with AdminClient(addresses, timeout_ms=1_000) as client:
        assert await failure_of(client, f"{addresses[1]} not answering (") == (
            f"no answer within 1 s: {addresses[0]}, {addresses[1]} not answering (connection refused)"
        )


async def test_a_controller_that_hangs_is_named_and_may_still_do_what_it_was_asked(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=1_000) as client:
        assert (await client.describe_cluster()).controller_id == FIRST_CONTROLLER
        assert (await client.find_controller()) == address
        cluster.hanging = {FIRST_CONTROLLER}
        silent = "no answer within 1 s: controller 1001 not answering"
        assert await failure_of(client, "") == f"{silent}; the controller may still carry it out"
        with pytest.raises(PeerUnreachableError) as gave_up:
            await client.list_topics()
        assert str(gave_up.value) == silent


async def test_topics_are_described_by_the_brokers_while_no_controller_is_active(cluster: ScriptedCluster) -> None:
    cluster.controller = -1
    addresses = [cluster.servers[node].address for node in (FIRST_CONTROLLER, 0, 1, 2)]
    async with AdminClient(addresses, timeout_ms=1_000) as client:
        ask = client.describe_topics([TOPIC])
        described, is_of_brokers = await of_controller_or_brokers(client, ask, [TOPIC], described_topics)
        assert is_of_brokers
        assert isinstance(described, list)
        assert [p.leader for p in described[0].partitions][:3] == [0, 1, 2]
        assert {p.partition_epoch for p in described[0].partitions} == {UNKNOWN_PARTITION_EPOCH}
    await stop_all(cluster)
    async with AdminClient(addresses, timeout_ms=1_000) as client:
        with pytest.raises(PeerUnreachableError, match="no answer within 1 s"):
            await of_controller_or_brokers(client, client.list_topics(), None, listed_topics)


async def stop_all(cluster: ScriptedCluster) -> None:
    for server in cluster.servers.values():
        await server.stop(0)


async def test_that_controllers_have_no_zookeeper_is_named_first(cluster: ScriptedCluster) -> None:
    cluster.controller, cluster.without_zookeeper = -1, {FIRST_CONTROLLER}
    addresses = [cluster.servers[node].address for node in (2, FIRST_CONTROLLER, 0, 1)]
    async with AdminClient(addresses, timeout_ms=1_000, names={addresses[1]: "controller 1001"}) as client:
        assert await failure_of(client, "2 running") == (
            "controller 1001 cannot reach ZooKeeper: no answer within 1 s; brokers 0, 1, 2 running"
        )


async def test_a_dry_run_that_is_not_answered_changes_nothing(cluster: ScriptedCluster) -> None:
    address = cluster.servers[FIRST_CONTROLLER].address
    async with AdminClient([address], timeout_ms=1_000) as client:
        await client.find_controller()
        cluster.hanging = {FIRST_CONTROLLER}
        with pytest.raises(PeerUnreachableError) as gave_up:
            await client.create_topics([], validate_only=True)
        assert "may still" not in str(gave_up.value)
