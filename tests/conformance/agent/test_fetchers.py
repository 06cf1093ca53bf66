"""Assignment of partitions to fetchers: new addresses, resizing, failures, back-off."""

import asyncio

import pytest
from msgspec.structs import replace

from broker_agent.replication.log_reconciliation import LeaderEndPoint
from broker_agent.replication.replica_fetchers import FetchStart
from cluster.metrics.registry import Metrics
from cluster.model.broker import Broker, BrokerId, Endpoint, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchRequest
from cluster.znodes.configs import (
    CONFIG_CHANGE_PREFIX,
    DEFAULT_ENTITY,
    ConfigEntity,
    encode_config,
    encode_config_change,
)
from cluster.zookeeper.port import Create, SetData
from simulator.virtual_time_loop import VirtualTimeLoop
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.followers import LEADER_ENDPOINT, PlayedLeader, data, error, follow, tell_again

PARTITIONS = [TopicPartition(TOPIC, number) for number in range(6)]
OTHER = PARTITIONS[1]


def fetcher_tasks() -> set[str]:
    names = (task.get_name() for task in asyncio.all_tasks() if not task.done())
    return {name for name in names if name.startswith("ReplicaFetcherThread-")}


def meters(metrics: Metrics, name: str) -> set[tuple[str, str]]:
    """(clientId, brokerPort) of each meter of the fetchers."""
    families = [family for family in metrics.collect() if family.name == f"kafka_server_fetcherstats_{name}"]
    return {(s.labels["clientId"], s.labels["brokerPort"]) for family in families for s in family.samples}


async def follow_many(world: AgentWorld) -> tuple[AgentProcess, PlayedLeader]:
    """Agent 1 follows the played broker 2 in all of PARTITIONS."""
    follower, leader = await follow(world)
    for tp in PARTITIONS[1:]:
        world.decide(2, [2], replicas=[1, 2], tp=tp)
        await world.tell(1, tp=tp)
    await asyncio.sleep(0.1)
    return follower, leader


def partitions_of(request: FetchRequest) -> set[int]:
    return {item.partition for item in request.partitions}


@pytest.mark.rule("R5.2")
@virtually
async def test_a_leader_at_another_address_is_fetched_there_with_everything_that_was_fetched_before() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(0, 5))
    await until(lambda: follower.offsets()[1] == 5)
    moved = PlayedLeader(world, Endpoint("broker-2", 9999))
    world.decide(2, [2], replicas=[1, 2], tp=OTHER)
    request = world.metadata(1)
    brokers = (*request.live_brokers, Broker(BrokerId(2), (Endpoint("broker-2", 9999),)))
    await follower.handle(replace(request, live_brokers=brokers))
    await world.tell(1, tp=OTHER)
    await until(lambda: {p for fetch in moved.fetches for p in partitions_of(fetch)} == {0, 1})
    offsets = {item.partition: item.fetch_offset for fetch in moved.fetches for item in fetch.partitions}
    assert offsets == {0: 5, 1: 0}
    asked = len(leader.fetches)
    leader.answers.put_nowait(data(5, 3))
    await asyncio.sleep(5)
    assert follower.offsets()[1] == 5
    assert len(leader.fetches) == asked
    assert {port for _, port in meters(follower.metrics, "requestspersec")} == {"9999"}
    await world.stop()


@pytest.mark.rule("R5.1", "R5.6", "R15.2")
@virtually
async def test_another_number_of_fetchers_moves_every_partition_as_it_is() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=50)
    await world.start(1, 2)
    for tp in PARTITIONS:
        world.decide(2, [2, 1], tp=tp)
    await world.update_metadata()
    for tp in PARTITIONS:
        await world.tell(2, 1, tp=tp)
    for number, tp in enumerate(PARTITIONS):
        await world.agents[2].produce(1 + number, tp=tp)
    await asyncio.sleep(30)
    assert fetcher_tasks() == {"ReplicaFetcherThread-0-2"}
    fetchers = world.agents[1].agent.fetchers
    before = {tp: fetchers.state(tp) for tp in PARTITIONS}
    assert [state and state.fetch_offset for state in before.values()] == [1, 2, 3, 4, 5, 6]
    tool = SimulatedZooKeeperClient(world.zookeeper)
    tool.listen(lambda _: None)
    await tool.start_session()

    async def configure(who: str, value: str) -> None:
        entity = ConfigEntity("brokers", who)
        content = encode_config({"num.replica.fetchers": value})
        exists = world.zookeeper.tree.exists(entity.path) is not None
        write = SetData(entity.path, content) if exists else Create(entity.path, content)
        change = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True)
        assert all(result.ok for result in await tool.multi([write, change]))

    for who, value, expected in (
        (DEFAULT_ENTITY, "3", {0, 1, 2}),
        ("1", "2", {0, 1}),  # What this broker is told goes before what all are told.
        ("1", "none", {0, 1, 2}),
        (DEFAULT_ENTITY, "-4", {0}),
    ):
        await configure(who, value)
        wanted = {f"ReplicaFetcherThread-{fetcher_id}-2" for fetcher_id in expected}
        await until(lambda: fetcher_tasks() == wanted)  # noqa: B023 (awaited at once)
        assert {tp: fetchers.state(tp) for tp in PARTITIONS} == before
        for tp in PARTITIONS:
            await world.agents[2].produce(1, tp=tp)
        await until(lambda: all(world.agents[1].offsets(tp) == world.agents[2].offsets(tp) for tp in PARTITIONS))
        await asyncio.sleep(30)
        before = {tp: fetchers.state(tp) for tp in PARTITIONS}
    await world.stop()


@pytest.mark.rule("D-33")
@virtually
async def test_the_log_level_of_an_agent_follows_its_overrides() -> None:
    world = AgentWorld()
    await world.start(1)
    tool = SimulatedZooKeeperClient(world.zookeeper)
    tool.listen(lambda _: None)
    await tool.start_session()
    entity = ConfigEntity("brokers", "1")
    change = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True)
    write = Create(entity.path, encode_config({"log.level": "debug"}))
    assert all(result.ok for result in await tool.multi([write, change]))
    await until(lambda: world.agents[1].log_level.value == "debug")
    write_back = SetData(entity.path, encode_config({}))
    assert all(result.ok for result in await tool.multi([write_back, change]))
    await until(lambda: world.agents[1].log_level.value == "info")
    await world.stop()


@pytest.mark.rule("R5.7")
@virtually
async def test_an_error_of_one_partition_leaves_its_fetcher_and_the_others_alone() -> None:
    world = AgentWorld()
    follower, leader = await follow_many(world)
    log = follower.partition(OTHER).log
    assert log is not None

    def fail(*_: object) -> None:
        raise RuntimeError("a bug in one log")

    log.append_as_follower = fail  # type: ignore[method-assign, assignment]
    for _ in range(len(leader.fetches)):
        leader.answers.put_nowait(())
    leader.answers.put_nowait(tuple(replace(data(0, 2), partition=tp.partition) for tp in PARTITIONS))
    await until(lambda: follower.agent.fetchers.failed == (OTHER,))
    assert [follower.offsets(tp)[1] for tp in PARTITIONS] == [2, 0, 2, 2, 2, 2]
    dead = follower.metrics.gauge("kafka.server", "ReplicaFetcherManager", "DeadThreadCount", clientId="Replica")
    failed = follower.metrics.gauge(
        "kafka.server", "ReplicaFetcherManager", "FailedPartitionsCount", clientId="Replica"
    )
    await until(lambda: failed.value == 1)
    assert dead.value == 0
    await world.stop()


@pytest.mark.rule("FD-7")
@virtually
async def test_gauges_of_fetchers_equal_a_recount_of_what_they_have_yet_to_fetch() -> None:
    world = AgentWorld()
    follower, leader = await follow_many(world)
    ends = {tp: 10 * (number + 1) for number, tp in enumerate(PARTITIONS)}
    for _ in range(len(leader.fetches)):
        leader.answers.put_nowait(())
    answer = [replace(data(0, 2), partition=tp.partition, high_watermark=Offset(ends[tp])) for tp in PARTITIONS]
    leader.answers.put_nowait(tuple(answer))
    await until(lambda: all(follower.offsets(tp)[1] == 2 for tp in PARTITIONS))
    follower.agent.fetchers.fail(OTHER)
    fetched = [tp for tp in PARTITIONS if tp != OTHER]

    def gauge(type_: str, name: str, **tags: object) -> float:
        return follower.metrics.gauge("kafka.server", type_, name, **tags).value

    def of_manager(name: str) -> float:
        return gauge("ReplicaFetcherManager", name, clientId="Replica")

    lags = {tp: ends[tp] - follower.offsets(tp)[1] for tp in fetched}
    await until(lambda: of_manager("MaxLag") == max(lags.values()))
    assert of_manager("FailedPartitionsCount") == len(PARTITIONS) - len(fetched)
    exposed = {
        (sample.labels["topic"], int(sample.labels["partition"])): sample.value
        for family in follower.metrics.collect()
        if family.name == "kafka_server_fetcherlagmetrics_consumerlag"
        for sample in family.samples
    }
    assert exposed == lags
    await world.stop()


@pytest.mark.rule("R5.26")
@virtually
async def test_a_storage_error_gives_up_the_partitions_of_that_directory_alone() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.agents[1].stop()
    await world.agents[1].start("/data", "/more")
    leader = PlayedLeader(world)
    for tp in (TP, OTHER):
        world.decide(2, [2], replicas=[1, 2], tp=tp)
    request = world.metadata(1)
    brokers = (*request.live_brokers, Broker(BrokerId(2), (Endpoint("broker-2", 9092),)))
    follower = world.agents[1]
    await follower.handle(replace(request, live_brokers=brokers))
    await world.tell(1, tp=TP)
    await world.tell(1, tp=OTHER)
    await until(lambda: len(leader.fetches) == 2)
    log = follower.partition().log
    assert log is not None

    def fail(*_: object) -> None:
        raise StorageError("/data", "broken")

    log.append_as_follower = fail  # type: ignore[method-assign, assignment]
    leader.answers.put_nowait(())
    leader.answers.put_nowait((data(0, 2), replace(data(0, 3), partition=1)))
    await until(lambda: follower.offsets(OTHER)[1] == 3)
    assert follower.agent.fetchers.failed == (TP,)
    leader.answers.put_nowait((replace(data(3, 3), partition=1),))
    await until(lambda: follower.offsets(OTHER)[1] == 6)
    await world.stop()


@pytest.mark.rule("R5.10")
@virtually
async def test_whoever_waits_on_a_follower_learns_that_its_high_watermark_rose() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    asked: list[TopicPartition] = []

    def record(tp: TopicPartition) -> bool:
        asked.append(tp)
        return follower.offsets()[0] >= 4

    waiting = asyncio.ensure_future(follower.agent.manager.fetch_purgatory.wait(record, (TP,), 60_000))
    await asyncio.sleep(0)
    leader.answers.put_nowait(data(0, 5))
    await until(lambda: follower.offsets() == (0, 5))
    assert asked == []
    leader.answers.put_nowait(replace(error(ErrorCode.NONE), high_watermark=Offset(4)))
    assert await waiting
    assert asked == [TP]
    await world.stop()


@pytest.mark.rule("R5.10", "R5.28")
@virtually
async def test_a_fetcher_with_nothing_ready_tries_again_when_something_is_added() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=10_000)
    _, leader = await follow(world)
    leader.answers.put_nowait(error(ErrorCode.UNKNOWN_LEADER_EPOCH))
    await asyncio.sleep(2)
    assert len(leader.fetches) == 1
    world.decide(2, [2], replicas=[1, 2], tp=OTHER)
    await world.tell(1, tp=OTHER)
    await until(lambda: len(leader.fetches) == 2, within_s=0.1)
    assert partitions_of(leader.fetches[1]) == {1}
    await world.stop()


@pytest.mark.rule("R5.28")
@virtually
async def test_a_back_off_under_way_is_not_made_longer_by_another_failure() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=1000, replica_socket_timeout_ms=600)
    _, leader = await follow(world)
    world.decide(2, [2], replicas=[1, 2], tp=OTHER)
    await world.tell(1, tp=OTHER)
    await until(lambda: len(leader.fetches) == 2)
    loop = asyncio.get_running_loop()
    leader.answers.put_nowait(())
    leader.answers.put_nowait((error(ErrorCode.NOT_LEADER_OR_FOLLOWER),))
    await until(lambda: len(leader.fetches) == 3)
    began = loop.time()
    assert partitions_of(leader.fetches[2]) == {1}
    # This one is never answered: after 0.6 s the whole request has failed, while the other's back-off is under way.
    await until(lambda: any(0 in partitions_of(fetch) for fetch in leader.fetches[3:]), within_s=5)
    assert 0.9 <= loop.time() - began <= 1.3
    await world.stop()


@pytest.mark.rule("R5.25", "R5.28")
@virtually
async def test_a_leader_that_does_not_answer_delays_all_partitions_and_loses_no_position() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=1000)
    follower, leader = await follow_many(world)
    for _ in range(len(leader.fetches)):
        leader.answers.put_nowait(())
    leader.answers.put_nowait(tuple(replace(data(0, 2), partition=tp.partition) for tp in PARTITIONS))
    await until(lambda: all(follower.offsets(tp)[1] == 2 for tp in PARTITIONS))
    world.network.detach(LEADER_ENDPOINT)
    await asyncio.sleep(20)
    returned = PlayedLeader(world)
    await until(lambda: {p for fetch in returned.fetches for p in partitions_of(fetch)} == set(range(6)), within_s=3)
    assert {item.fetch_offset for fetch in returned.fetches for item in fetch.partitions} == {2}
    assert follower.agent.fetchers.failed == ()
    await world.stop()


@pytest.mark.rule("R5.8")
@virtually
async def test_a_partition_that_is_added_again_in_the_same_epoch_goes_on_as_it_was() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(0, 5))
    await until(lambda: follower.offsets()[1] == 5)
    fetchers = follower.agent.fetchers
    before = fetchers.state(TP)
    start = FetchStart(
        TOPIC_ID, LeaderEndPoint(BrokerId(2), Endpoint("broker-2", 9092)), LeaderEpoch(0), Offset(0), None
    )
    fetchers.add({TP: start})
    assert fetchers.state(TP) is before
    fetchers.add({TP: replace(start, leader_epoch=LeaderEpoch(1))})
    again = fetchers.state(TP)
    assert again is not None
    assert (again.fetch_offset, again.leader_epoch, again.is_truncating, again.lag) == (0, 1, True, None)
    await world.stop()


@pytest.mark.rule("R5.3", "R5.4")
@virtually
async def test_stopping_takes_a_partition_out_of_the_failed_set_and_returns_the_states_of_the_others() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(error(ErrorCode.FENCED_LEADER_EPOCH))
    await until(lambda: follower.agent.fetchers.failed == (TP,))
    await world.stop_replica(1)
    assert follower.agent.fetchers.failed == ()
    await tell_again(world)
    state = follower.agent.fetchers.state(TP)
    assert follower.agent.fetchers.remove((TP, OTHER)) == {TP: state}
    assert follower.agent.fetchers.remove((TP,)) == {}
    await world.stop()


@pytest.mark.rule("R5.11")
@virtually
async def test_partitions_take_turns_where_a_response_holds_one_batch() -> None:
    world = AgentWorld(replica_fetch_response_max_bytes=1, replica_fetch_backoff_ms=50, replica_socket_timeout_ms=600)
    await world.start(1, 2)
    for tp in PARTITIONS:
        world.decide(2, [2, 1], tp=tp)
    await world.update_metadata()
    for tp in PARTITIONS:
        await world.tell(2, 1, tp=tp)
        await world.agents[2].produce(1, tp=tp)
    follower, loop = world.agents[1], asyncio.get_running_loop()
    await until(lambda: all(follower.offsets(tp)[1] == 1 for tp in PARTITIONS))
    world.network.cut("broker-1:9092", "broker-2:9092")
    await asyncio.sleep(1)
    for _ in range(8):
        for tp in PARTITIONS:
            await world.agents[2].produce(1, tp=tp)
    spread: list[int] = []

    def observe() -> None:
        ends = [follower.offsets(tp)[1] for tp in PARTITIONS]
        spread.append(max(ends) - min(ends))

    assert isinstance(loop, VirtualTimeLoop)
    loop.after_step = observe
    world.network.heal("broker-1:9092", "broker-2:9092")
    await until(lambda: all(follower.offsets(tp)[1] == 9 for tp in PARTITIONS))
    loop.after_step = None
    assert max(spread) == 1
    await world.stop()


@pytest.mark.rule("R5.5", "R5.7")
@virtually
async def test_the_meters_of_each_fetcher_go_with_it_and_not_with_another_of_the_same_leader() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=50, num_replica_fetchers=2)
    await world.start(1, 2)
    for tp in PARTITIONS[:2]:
        world.decide(2, [2, 1], tp=tp)
    await world.update_metadata()
    for tp in PARTITIONS[:2]:
        await world.tell(2, 1, tp=tp)
    await world.agents[2].produce(1)
    await asyncio.sleep(1)
    metrics = world.agents[1].metrics
    both = {("ReplicaFetcherThread-0-2", "9092"), ("ReplicaFetcherThread-1-2", "9092")}
    assert meters(metrics, "requestspersec") == meters(metrics, "bytespersec") == both
    await world.stop_replica(1)
    assert len(meters(metrics, "requestspersec")) == 1
    await world.stop_replica(1, tp=OTHER)
    assert meters(metrics, "requestspersec") == set()
    await world.stop()
