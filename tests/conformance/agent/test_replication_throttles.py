"""Throttled replicas are copied no faster than the rates of the brokers allow; replicas in sync never wait."""

import asyncio

import pytest

from broker_agent.log.record_batch import parse_header
from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, encode_config, encode_config_change
from cluster.zookeeper.port import Create, Op, SetData
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, finished, until, virtually

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
BATCHES = 40


class Operator:
    """Sets configs as Kafka's tools do."""

    def __init__(self, world: AgentWorld) -> None:
        self._client = SimulatedZooKeeperClient(world.zookeeper)
        self._tree = world.zookeeper.tree

    async def set(self, entity: str, **configs: str) -> None:
        """`entity`: such as `topics/orders`."""
        if self._client.session_id == 0:
            self._client.listen(lambda _: None)
            await self._client.start_session()
        type_, _, name = entity.partition("/")
        of = ConfigEntity(type_, name)
        data, parts = encode_config(configs), of.path.split("/")
        parents = ["/".join(parts[:length]) for length in range(4, len(parts))]
        writes: list[Op] = [Create(path, encode_config({})) for path in parents if self._tree.exists(path) is None]
        writes.append(Create(of.path, data) if self._tree.exists(of.path) is None else SetData(of.path, data))
        change = Create(CONFIG_CHANGE_PREFIX, encode_config_change(of), sequential=True)
        results = await self._client.multi([*writes, change])
        assert all(result.ok for result in results), results
        await asyncio.sleep(0.5)


async def world_with_records(*extra: int, **settings: object) -> tuple[AgentWorld, int]:
    """Agent 1 leads and has records that agent 2, which is not in the ISR, is to copy; the size of the log."""
    world = AgentWorld(**{"replica_fetch_backoff_ms": 50, "replica_fetch_max_bytes": 500, **settings})
    await world.start(1, 2, *extra)
    await world.create(1, (1, *extra), replicas=(1, *extra))
    for _ in range(BATCHES):
        await world.agents[1].produce(5)
    log = world.agents[1].partition().log
    assert log is not None
    return world, log.segments.size


async def join(world: AgentWorld, *isr: int) -> None:
    """Agent 2 becomes a follower that has to catch up."""
    world.decide(1, isr or (1,), replicas=(1, 2, *isr[1:]), adding_replicas=(BrokerId(2),))
    await world.update_metadata()
    await world.tell(1, 2)


async def seconds_to_join(world: AgentWorld) -> float:
    loop = asyncio.get_running_loop()
    start = loop.time()
    await join(world)
    await until(lambda: 2 in world.agents[1].partition().isr, within_s=600)
    return loop.time() - start


def rates(process: AgentProcess) -> tuple[int | None, int | None]:
    manager = process.agent.manager
    return manager.leader_quota.bytes_per_second, manager.follower_quota.bytes_per_second


@pytest.mark.rule("R18.2", "R18.3")
@pytest.mark.parametrize(
    ("broker", "rate", "listed"),
    [
        (1, LEADER_RATE, {LEADERS: "0:1"}),
        (1, LEADER_RATE, {LEADERS: "*"}),
        (2, FOLLOWER_RATE, {FOLLOWERS: "0:2"}),
        (2, FOLLOWER_RATE, {FOLLOWERS: "*"}),
    ],
)
@virtually
async def test_a_copy_takes_as_long_as_its_size_at_the_rate(broker: int, rate: str, listed: dict[str, str]) -> None:
    world, size = await world_with_records()
    operator, bytes_per_second = Operator(world), size // 10
    await operator.set(f"topics/{TOPIC}", **listed)
    await operator.set(f"brokers/{broker}", **{rate: str(bytes_per_second)})
    await until(lambda: bytes_per_second in rates(world.agents[broker]))
    assert await seconds_to_join(world) >= size / bytes_per_second - 1
    assert world.agents[2].offsets()[1] == 5 * BATCHES
    await world.stop()


@pytest.mark.rule("R18.2")
@virtually
async def test_a_copy_in_one_fetch_takes_as_long_as_its_size_at_the_rate() -> None:
    world, size = await world_with_records(replica_fetch_max_bytes=1 << 20)
    operator, bytes_per_second = Operator(world), size // 5
    await operator.set(f"topics/{TOPIC}", **{FOLLOWERS: "0:2"})
    await operator.set("brokers/2", **{FOLLOWER_RATE: str(bytes_per_second)})
    assert await seconds_to_join(world) >= size / bytes_per_second
    # In sync it is not held up, though the quota is exceeded by what it gets.
    for _ in range(20):
        answer = await finished(world.agents[1].produce(100, acks=-1, timeout_ms=2000), within_s=2)
        assert answer.error_code is ErrorCode.NONE
    assert world.agents[2].agent.manager.follower_quota.is_exceeded(asyncio.get_running_loop().time() * 1000)
    await world.stop()


@pytest.mark.rule("R18.1", "R18.2", "R18.3")
@pytest.mark.parametrize(
    ("listed", "rate"),
    [
        ({LEADERS: "0:2,1:1", FOLLOWERS: "0:1,1:2"}, "1"),
        ({LEADERS: "", FOLLOWERS: ""}, "1"),
        ({LEADERS: "*", FOLLOWERS: "nonsense"}, None),
    ],
)
@virtually
async def test_replicas_that_are_not_listed_and_brokers_without_a_rate_do_not_wait(
    listed: dict[str, str], rate: str | None
) -> None:
    world, _ = await world_with_records()
    operator = Operator(world)
    await operator.set(f"topics/{TOPIC}", **listed)
    if rate is not None:
        await operator.set("brokers/<default>", **{LEADER_RATE: rate, FOLLOWER_RATE: rate})
        await until(lambda: {rates(world.agents[b]) for b in (1, 2)} == {(1, 1)})
    assert await seconds_to_join(world) < 5
    await world.stop()


@pytest.mark.rule("R18.3")
@virtually
async def test_a_leader_never_throttles_a_follower_in_sync() -> None:
    world, size = await world_with_records()
    await seconds_to_join(world)
    operator = Operator(world)
    await operator.set(f"topics/{TOPIC}", **{LEADERS: "*", FOLLOWERS: "*"})
    for broker in (1, 2):
        await operator.set(f"brokers/{broker}", **{LEADER_RATE: "1", FOLLOWER_RATE: "1"})
        await until(lambda: rates(world.agents[broker]) == (1, 1))  # noqa: B023 (awaited at once)
    for _ in range(10):
        answer = await finished(world.agents[1].produce(5, acks=-1, timeout_ms=5000), within_s=5)
        assert answer.error_code is ErrorCode.NONE
    # What is sent to those in sync counts all the same.
    assert world.agents[1].agent.manager.leader_quota.is_exceeded(asyncio.get_running_loop().time() * 1000)
    assert size > 0
    await world.stop()


@pytest.mark.rule("R18.3", "R6.15")
@virtually
async def test_a_leader_over_its_quota_answers_without_the_records_and_others_get_theirs() -> None:
    world, _ = await world_with_records()
    leader, operator = world.agents[1], Operator(world)
    await operator.set(f"topics/{TOPIC}", **{LEADERS: "0:1"})
    await operator.set("brokers/1", **{LEADER_RATE: "10"})
    log = leader.partition().log
    assert log is not None
    await until(lambda: leader.agent.manager.leader_quota.is_throttled(log))
    world.network.detach(world.agents[2].endpoint)
    world.decide(1, (1,), replicas=(1, 2), adding_replicas=(BrokerId(2),))
    await world.tell(1)
    first = await leader.fetch(0, replica=2, max_bytes=1 << 20)
    # One batch is always sent, however small the rate: 10 bytes a second, for 11 seconds.
    assert parse_header(first.records).last_offset == 4
    assert len(first.records) == parse_header(first.records).size
    loop = asyncio.get_running_loop()
    began = loop.time()
    over = await leader.fetch(5, replica=2, max_wait_ms=700)
    assert (over.error_code, over.records, over.high_watermark) == (ErrorCode.NONE, b"", 5 * BATCHES)
    assert loop.time() - began == pytest.approx(0.7)
    # Its progress counts, and consumers are nobody's replicas.
    assert leader.partition().remote[BrokerId(2)].log_end_offset == 5
    assert (await leader.fetch(5)).records
    await asyncio.sleep(11)
    assert (await leader.fetch(5, replica=2)).records
    await world.stop()


@pytest.mark.rule("R18.2")
@virtually
async def test_a_follower_over_its_quota_still_fetches_its_other_partitions() -> None:
    other = TopicPartition(TOPIC, 1)
    world, _ = await world_with_records()
    world.decide(1, (1, 2), tp=other)
    await world.update_metadata()
    await world.tell(1, 2, tp=other)
    operator = Operator(world)
    await operator.set(f"topics/{TOPIC}", **{FOLLOWERS: "0:2"})
    await operator.set("brokers/2", **{FOLLOWER_RATE: "1"})
    await until(lambda: rates(world.agents[2])[1] == 1)
    await join(world)
    await until(lambda: world.agents[2].offsets()[1] > 0)
    answer = await finished(world.agents[1].produce(1, acks=-1, tp=other, timeout_ms=5000), within_s=5)
    assert answer.error_code is ErrorCode.NONE
    await asyncio.sleep(5)
    assert world.agents[2].offsets()[1] < 5 * BATCHES
    # A delay that has ended does not come again and again while the partition is left out.
    leader, fetchers = world.agents[1], world.agents[2].agent.fetchers
    world.network.detach(leader.endpoint)
    await until(lambda: (state := fetchers.state(other)) is not None and state.delayed_until is not None)
    world.network.attach(leader.endpoint, leader.node)
    await asyncio.sleep(1)
    state = fetchers.state(TP)
    assert state is not None
    assert state.delayed_until is None
    # Without the rate the rest comes at once.
    await operator.set("brokers/2")
    await until(lambda: 2 in world.agents[1].partition().isr, within_s=5)
    await world.stop()


@pytest.mark.rule("R18.4")
@virtually
async def test_a_brokers_own_rate_is_before_the_one_of_all_and_invalid_ones_are_ignored() -> None:
    world, _ = await world_with_records()
    operator, process = Operator(world), world.agents[1]
    assert rates(process) == (None, None)
    await operator.set("brokers/<default>", **{LEADER_RATE: "7", FOLLOWER_RATE: "8"})
    await until(lambda: rates(process) == (7, 8))
    await operator.set("brokers/1", **{LEADER_RATE: "0", FOLLOWER_RATE: "-1"})
    await until(lambda: rates(process) == (0, 8))
    await operator.set("brokers/1")
    await operator.set("brokers/<default>", **{LEADER_RATE: "many"})
    await until(lambda: rates(process) == (None, None))
    await world.stop()


@pytest.mark.rule("R18.5")
@virtually
async def test_the_rates_are_measured_and_a_throttle_is_a_finding_with_what_removes_it() -> None:
    world, size = await world_with_records()
    operator = Operator(world)
    assert [*world.agents[1].agent.findings()] == []
    await operator.set(f"topics/{TOPIC}", **{LEADERS: "*", FOLLOWERS: "0:2"})
    await operator.set("brokers/1", **{LEADER_RATE: "1000000"})
    await operator.set("brokers/<default>", **{LEADER_RATE: "2000000", FOLLOWER_RATE: "2000000"})
    await until(lambda: rates(world.agents[1]) == (1000000, 2000000))
    await seconds_to_join(world)
    await asyncio.sleep(1.5)
    for broker, type_ in ((1, "LeaderReplication"), (2, "FollowerReplication")):
        rate = world.agents[broker].metrics.gauge("kafka.server", type_, "byte-rate").value
        assert 0 < rate <= size
    found = [(f.kind, f.topic, f.broker, f.detail.partition("'")[2]) for f in world.agents[1].agent.findings()]
    assert found == [
        ("forgotten_throttle", "", 1, f"klamm brokers alter 1 --delete-config {LEADER_RATE}'"),
        ("forgotten_throttle", "", 1, f"klamm brokers alter default --delete-config {FOLLOWER_RATE}'"),
        (
            "forgotten_throttle",
            TOPIC,
            -1,
            f"klamm topics alter {TOPIC} --delete-config {LEADERS} --delete-config {FOLLOWERS}'",
        ),
    ]
    # A follower says nothing of the topic: its leader does.
    assert {f.topic for f in world.agents[2].agent.findings()} == {""}
    await world.stop()
