"""Producer, consumer and administrative client over real gRPC, against nodes that answer by a script."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from admin.connecting.client import AdminClient
from admin.consuming.consumer import Consumer, UnreadableBatchError
from admin.consuming.offsets import list_offsets
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Delivery, Producer
from cluster.aio.clock import SystemClock
from cluster.metrics.registry import Metrics
from cluster.model.broker import Offset
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.data import (
    EARLIEST_TIMESTAMP,
)
from cluster.rpc.serving import Listener
from controller.adapters.grpc_server import serve_controller
from tests.controllers.scripted_cluster import FIRST_CONTROLLER, TOPIC, ScriptedCluster, ScriptedNode, served_cluster
from tests.timeouts import TIMEOUT_S


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with served_cluster() as served:
        yield served


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


async def test_a_batch_whose_answer_was_lost_is_sent_again_counted_and_stored_once(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.lose_answers = 1
    producer, deliveries = await produce(client, [b"a", b"b"], partition=1)
    assert cluster.values(1) == [b"a", b"b"]
    assert (producer.totals.acknowledged, producer.totals.batches_retried) == (2, 1)
    assert [d.base_offset for d in deliveries] == [0]
    assert cluster.producer_ids == 1


async def test_a_throttled_producer_says_so_while_it_waits_and_in_the_end(cluster: ScriptedCluster) -> None:
    said: list[str] = []
    addresses = [s.address for s in cluster.servers.values()]
    options = ProducerOptions(batch_size=60, delivery_timeout_ms=TIMEOUT_S * 1000)
    async with AdminClient(addresses, client_id="app", on_wait=lambda notice: said.append(notice.text)) as client:
        # Each is too short for a notice of its own.
        cluster.throttle_ms = [1_300, 1_300, 1_300]
        producer, _ = await produce(client, [b"%050d" % n for n in range(5)], options, partition=1)
    assert producer.totals.acknowledged == 5
    assert producer.totals.throttled_ms == 3_900
    [notice] = said
    assert notice.startswith("throttled by quota: ")
    assert "hears this client " in notice


async def test_records_that_a_throttle_kept_too_long_fail_with_that_reason(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.throttle_ms = [60_000]
    options = ProducerOptions(batch_size=60, delivery_timeout_ms=1_000, request_timeout_ms=900)
    producer, deliveries = await produce(client, [b"%050d" % n for n in range(3)], options, partition=1)
    assert producer.totals.acknowledged < 3
    assert "not acknowledged within 1000 ms; throttled by quota: " in str(deliveries[-1].error)


async def test_without_idempotence_a_lost_answer_may_store_a_batch_twice(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.lose_answers = 1
    producer, deliveries = await produce(client, [b"a", b"b"], ProducerOptions(enable_idempotence=False), partition=1)
    assert cluster.values(1) == [b"a", b"b", b"a", b"b"]
    assert (producer.totals.acknowledged, producer.totals.batches_retried) == (2, 1)
    assert [d.base_offset for d in deliveries] == [2]
    assert cluster.producer_ids == 0


async def test_brokers_that_give_no_producer_ids_turn_idempotence_off_unless_it_was_asked_for(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.gives_producer_ids = False
    producer, _ = await produce(client, [b"a"], partition=1)
    assert (producer.totals.acknowledged, producer.is_idempotent) == (1, False)
    producer, deliveries = await produce(client, [b"b"], ProducerOptions(enable_idempotence=True), partition=1)
    assert cluster.values(1) == [b"a"]
    assert [str(d.error) for d in deliveries] == [
        "UNSUPPORTED_VERSION: the brokers are of a release that gives no producer ids"
    ]


async def test_contradicting_settings_are_refused_before_anything_is_sent(client: AdminClient) -> None:
    with pytest.raises(ApiError, match=r"enable\.idempotence=true needs acks=all, and it is 1"):
        Producer(Topology(client), SystemClock(), ProducerOptions(acks=1, enable_idempotence=True))


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


async def test_an_unregistered_broker_is_refused_by_its_id(client: AdminClient) -> None:
    assert (await client.registered_broker(2)).id == 2
    with pytest.raises(ApiError, match="'klamm brokers list' shows those that are") as refused:
        await client.registered_broker(9)
    assert (refused.value.code, refused.value.field) == (ErrorCode.BROKER_NOT_AVAILABLE, "broker")
    assert refused.value.value == 9


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


async def test_a_partition_of_a_negative_number_in_the_metadata_is_left_out(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    cluster.leaders[-1] = (0, 0)
    producer, _ = await produce(client, [b"sent"] * 5)
    assert producer.totals.acknowledged == 5
    assert await Topology(client).partitions(TOPIC) == list(range(12))
    cluster.leaders = {-1: (0, 0)}
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await produce(client, [b"refused"])


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


async def test_a_consumer_without_the_right_to_read_sees_that_it_lacks(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    """A fetch without the right has no offsets to speak of."""
    topology = Topology(client)
    await topology.partitions(TOPIC)
    cluster.leader_errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with Consumer(topology, TOPIC, {0: Offset(0)}) as consumer:
        with pytest.raises(ApiError, match="no right to topic 'orders'") as refused:
            await anext(consumer.fetched())
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_user_who_reaches_brokers_only_sees_that_a_right_lacks(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    """Controllers whose listener has no users do not answer them."""
    cluster.hanging = {FIRST_CONTROLLER}
    cluster.denied = {"secret"}
    with pytest.raises(ApiError, match="no right to topic 'secret'") as refused:
        await Topology(client).partitions("secret")
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


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
