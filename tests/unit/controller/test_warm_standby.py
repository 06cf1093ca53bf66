"""A standby follows the topics and partition states in ZooKeeper: what it takes over equals what a read would give."""

import asyncio
from random import Random

import pytest

from cluster.model.partition import TopicPartition
from cluster.znodes.paths import state_path, topic_path
from cluster.zookeeper.port import Create, SetData
from controller.events import StandbyDiffered
from controller.warm_standby import COMPARISON_DELAY_S, GATHERING_S
from simulator.zookeeper import SimulatedZooKeeper
from tests.controllers.standbys import EPOCH, Standby, creation, deletion, run, state


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
        # The election, the list of topics, the watches on their znodes, the end of the watch on the subtree.
        assert standby.client.requests - before == 4
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
