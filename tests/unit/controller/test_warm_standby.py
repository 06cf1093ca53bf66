"""A standby follows the topics and partition states in ZooKeeper: what it takes over equals what a read would give."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from cluster.model.broker import BrokerId, ControllerEpoch, ZkVersion
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.znodes.paths import (
    BROKERS,
    BROKERS_TOPICS,
    CONTROLLER_EPOCH,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create, Delete, Op, SessionEvent, SessionState, SetData, WatchEvent
from cluster.zookeeper.recipes import create_where_missing
from controller.events import StandbyDiffered
from controller.fenced_writes import FencedWriter
from controller.store import ControllerStore
from controller.warm_standby import COMPARISON_DELAY_S, GATHERING_S, WarmStandby
from simulator.cluster import simulate
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient

REPLICAS = tuple(map(BrokerId, (1, 2, 3)))
EPOCH = ControllerEpoch(7)
Loaded = tuple[dict[str, TopicAssignment], dict[TopicPartition, LeaderAndIsr]]


class Standby:
    """A warm standby on a ZooKeeper that somebody else writes."""

    def __init__(self, server: SimulatedZooKeeper | None = None, *, partitions_max: int = 1000) -> None:
        self.server = SimulatedZooKeeper(Random(3)) if server is None else server
        self.client, self.other = (SimulatedZooKeeperClient(self.server, session_timeout_ms=6000) for _ in range(2))
        self.is_over = asyncio.Event()
        self.differences: list[StandbyDiffered] = []
        self.warm = WarmStandby(self.client, partitions_max, self.differences.append)
        self.store = ControllerStore(
            self.client, FencedWriter(self.client, ZkVersion(0), CONTROLLER_EPOCH, on_refusal=lambda: None)
        )

    async def start(self) -> None:
        self.client.listen(self._hear)
        self.other.listen(lambda _: None)
        await self.client.start_session()
        await self.other.start_session()
        for path in (BROKERS, BROKERS_TOPICS):
            await create_where_missing(self.other, path)
        self.running = asyncio.get_running_loop().create_task(self.warm.run())
        self.warm.follow(follows=True)

    def _hear(self, event: WatchEvent | SessionEvent) -> None:
        if isinstance(event, SessionEvent):
            if event.state is SessionState.EXPIRED:
                self.is_over.set()
            self.warm.session_changed(event.state)

    async def until_warm(self) -> None:
        async with asyncio.timeout(60):
            while not self.warm.is_warm:  # noqa: ASYNC110 - it says so to nobody.
                await asyncio.sleep(0.1)

    async def take_over(self) -> Loaded:
        """What a failover loads."""
        reads = self.warm.reads(self.store)
        topics = await reads.read_topics(sorted(await self.store.list_topics()))
        states = await reads.read_states(partitions_in(topics))
        await self.warm.loaded(EPOCH, reads)
        return topics, states

    async def read(self) -> Loaded:
        """What a failover without a warm standby loads."""
        topics = await self.store.read_topics(sorted(await self.store.list_topics()))
        return topics, await self.store.read_states(partitions_in(topics))


def partitions_in(topics: dict[str, TopicAssignment]) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for topic, assignment in topics.items() for p in assignment.partitions]


def assignment(partitions: int) -> TopicAssignment:
    return TopicAssignment({p: ReplicaAssignment(REPLICAS) for p in range(partitions)})


def state(leader: int, epoch: int = 0) -> bytes:
    return encode_state(LeaderAndIsr(BrokerId(leader), epoch, REPLICAS, ControllerEpoch(1), 0))  # type: ignore[arg-type]


def creation(topic: str, partitions: int) -> list[Op]:
    """The znodes of a topic and of its partitions, in one transaction."""
    ops: list[Op] = [Create(topic_path(topic), encode_topic(assignment(partitions))), Create(partitions_path(topic))]
    for tp in (TopicPartition(topic, p) for p in range(partitions)):
        ops += Create(partition_path(tp)), Create(state_path(tp), state(1))
    return ops


def deletion(topic: str, partitions: int) -> list[Op]:
    return [Delete(op.path) for op in reversed(creation(topic, partitions))]


def run(test: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        await test

    simulate(main)


@pytest.mark.rule("D-122", "LC-4", "LC-8")
def test_a_warm_standby_takes_over_without_reading_topics_or_states() -> None:
    async def test() -> None:
        standby = Standby()
        await standby.start()
        for topic in ("a", "b"):
            await standby.other.multi(creation(topic, 40))
        await standby.until_warm()
        assert len(standby.warm.known.states) == 80
        before = standby.client.requests
        loaded = await standby.take_over()
        # The list of topics, the watches on their znodes, the end of the watch on the subtree.
        assert standby.client.requests - before == 3
        assert loaded == await standby.read()
        assert len(loaded[1]) == 80
        assert standby.warm.known.states == {}
        assert standby.differences == []

    run(test())


@pytest.mark.rule("D-122")
def test_what_changed_just_before_is_read_again() -> None:
    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi(creation("a", 3))
        await standby.until_warm()
        changed = TopicPartition("a", 1)
        await standby.other.multi([SetData(state_path(changed), state(2, 1)), *creation("new", 2)])
        # The events are still on their way, and nothing was read again.
        assert standby.warm.known.states[changed].leader == 1
        topics, states = await standby.take_over()
        assert states[changed].leader == 2
        assert (topics, states) == await standby.read()
        assert len(states) == 5

    run(test())


@pytest.mark.rule("D-122")
@pytest.mark.parametrize("seed", range(12))
def test_it_takes_over_what_a_read_would_give_whatever_happens_meanwhile(seed: int) -> None:
    async def test() -> None:
        random, standby = Random(seed), Standby(SimulatedZooKeeper(Random(seed), latency_seconds=(0.0, 0.4)))
        await standby.start()
        sizes: dict[str, int] = {}
        for _ in range(60):
            topic, partition = random.choice("abcd"), random.randrange(4)
            match random.randrange(8):
                case 0 if topic not in sizes:
                    sizes[topic] = random.randint(1, 4)
                    await standby.other.multi(creation(topic, sizes[topic]))
                case 1 if topic in sizes:
                    await standby.other.multi(deletion(topic, sizes.pop(topic)))
                case 2:
                    standby.client.disconnect(random.choice((0.1, 1.0)))
                case 3 if random.random() < 0.2:
                    standby.is_over.clear()
                    standby.client.expire()
                    await standby.is_over.wait()
                    await standby.client.start_session()
                case 4 if topic in sizes:
                    # Malformed, until it is written again.
                    await standby.other.multi([SetData(state_path(TopicPartition(topic, 0)), b"{")])
                case _ if topic in sizes and partition < sizes[topic]:
                    tp = TopicPartition(topic, partition)
                    await standby.other.multi([SetData(state_path(tp), state(random.choice((1, 2, 3))))])
            if random.random() < 0.3:
                await asyncio.sleep(random.choice((0.01, GATHERING_S, 3)))
        assert await standby.take_over() == await standby.read()
        await asyncio.sleep(COMPARISON_DELAY_S + 10)
        assert standby.differences == []

    run(test())


@pytest.mark.rule("D-122")
def test_after_a_lost_connection_everything_is_read_again() -> None:
    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi(creation("a", 3))
        await standby.until_warm()
        standby.client.disconnect(1)
        await standby.other.multi([SetData(state_path(TopicPartition("a", 0)), state(3, 4))])
        await asyncio.sleep(0.1)
        assert standby.warm.known.states == {}
        await asyncio.sleep(2)
        await standby.until_warm()
        assert standby.warm.known.states[TopicPartition("a", 0)].leader == 3

    run(test())


@pytest.mark.rule("D-122")
def test_malformed_znodes_are_left_to_the_controller_which_reports_them() -> None:
    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi([*creation("a", 2), Create(topic_path("broken"), b"[")])
        await standby.other.multi([SetData(state_path(TopicPartition("a", 0)), b"not JSON")])
        await standby.until_warm()
        topics, states = await standby.take_over()
        assert set(topics) == {"a"}
        assert set(states) == {TopicPartition("a", 1)}
        assert {path for path, _ in standby.store.malformed.items()} == {
            topic_path("broken"),
            state_path(TopicPartition("a", 0)),
        }

    run(test())


@pytest.mark.rule("D-122")
@pytest.mark.parametrize("why", ["an old server", "too many partitions", "the setting"])
def test_without_it_a_failover_reads(why: str) -> None:
    async def test() -> None:
        standby = Standby(partitions_max={"the setting": 0, "too many partitions": 4}.get(why, 100))
        standby.server.knows_subtree_watches = why != "an old server"
        await standby.start()
        await standby.other.multi(creation("a", 5))
        await asyncio.sleep(10)
        assert standby.warm.why_cold
        assert not standby.warm.known.states
        assert standby.warm.reads(standby.store) is standby.store
        _, states = await standby.take_over()
        assert len(states) == 5

    run(test())


@pytest.mark.rule("D-122")
def test_a_change_that_was_never_reported_is_found_afterwards() -> None:
    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi(creation("a", 3))
        await standby.until_warm()
        lose_subtree_watches(standby.server)
        lost = state_path(TopicPartition("a", 2))
        await standby.other.multi([SetData(lost, state(3, 9))])
        _, states = await standby.take_over()
        assert states[TopicPartition("a", 2)].leader == 1
        # Written after it took over: no sign of a mistake.
        await standby.other.multi([SetData(state_path(TopicPartition("a", 1)), state(2, 1))])
        await asyncio.sleep(COMPARISON_DELAY_S + 10)
        assert standby.differences == [StandbyDiffered(EPOCH, (lost,))]
        standby.warm.differed(standby.differences[0])
        assert lost in standby.warm.difference
        standby.warm.follow(follows=True)
        await asyncio.sleep(10)
        assert not standby.warm.is_warm

    run(test())


def lose_subtree_watches(server: SimulatedZooKeeper) -> None:
    """The server forgets these watches, as none does: its clients hear of no change any more."""
    for session in server._sessions.values():
        session.watches.subtrees.clear()


@pytest.mark.rule("D-122")
def test_an_error_of_any_kind_ends_neither_it_nor_its_candidate() -> None:
    async def test() -> None:
        standby = Standby()
        read = standby.client.get_many

        async def refuse(*_: object, **__: object) -> None:
            raise OSError("no reading today")

        standby.client.get_many = refuse  # type: ignore[method-assign,assignment]
        await standby.start()
        await standby.other.multi(creation("a", 2))
        await asyncio.sleep(20)
        assert not standby.warm.known.states
        standby.client.get_many = read  # type: ignore[method-assign]
        await standby.until_warm()
        assert not standby.running.done()

    run(test())


@pytest.mark.rule("D-122")
def test_nothing_is_compared_in_another_session() -> None:
    """A restored ZooKeeper has lower zxids, so that what is older there would look like a mistake."""

    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi(creation("a", 1))
        backup = standby.server.tree.copy()
        await standby.other.multi([SetData(state_path(TopicPartition("a", 0)), state(2, 1))])
        await standby.until_warm()
        await standby.take_over()
        standby.server.restore(backup, 6)
        await standby.is_over.wait()
        await standby.client.start_session()
        await asyncio.sleep(COMPARISON_DELAY_S + 10)
        assert standby.differences == []

    run(test())


@pytest.mark.rule("D-122")
def test_it_stops_following_and_comparing_as_the_candidate_does() -> None:
    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi(creation("a", 3))
        await standby.until_warm()
        await standby.take_over()
        assert all(not session.watches.subtrees for session in standby.server._sessions.values())
        # Resigned before the comparison began.
        standby.warm.follow(follows=True)
        await standby.until_warm()
        assert len(standby.warm.known.states) == 3

    run(test())
