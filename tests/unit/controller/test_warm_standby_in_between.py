"""A standby is elected, resigns or loses its server while it still reads: nothing that it did not hear of is kept."""

import asyncio
from random import Random

import pytest

from cluster.model.broker import ControllerEpoch
from cluster.model.partition import TopicPartition
from cluster.znodes.controller import encode_controller_epoch
from cluster.znodes.paths import CONTROLLER_EPOCH, state_path, topic_path
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import SetData
from controller.warm_standby import COMPARISON_DELAY_S, GATHERING_S
from simulator.zookeeper import SimulatedZooKeeper
from tests.controllers.standbys import EPOCH, Standby, assignment, creation, run, state

P0 = TopicPartition("a", 0)
SLOWLY = (0.1, 0.4)


@pytest.mark.rule("D-122", "LC-4")
@pytest.mark.parametrize("seed", range(12))
def test_every_topic_that_is_taken_over_is_watched(seed: int) -> None:
    """Also one that becomes known while the watches of the others are being armed."""

    async def test() -> None:
        standby = Standby(SimulatedZooKeeper(Random(seed), latency_seconds=(0.0, 0.4)))
        await standby.start()
        await standby.other.multi(creation("a", 2))
        await standby.until_warm()
        await standby.other.multi(creation("b", 1))
        # What has changed is being read again at about this time.
        await asyncio.sleep(GATHERING_S + Random(seed).uniform(-0.4, 0.4))
        topics, _ = await standby.take_over()
        assert set(topics) == {"a", "b"}
        standby.fired.clear()
        for topic in ("a", "b"):
            await standby.other.multi([SetData(topic_path(topic), encode_topic(assignment(3)))])
        await asyncio.sleep(2)
        assert {event.path for event in standby.fired} == {topic_path("a"), topic_path("b")}

    run(test())


@pytest.mark.rule("D-122")
@pytest.mark.parametrize("begins", [number / 10 for number in range(10, 20)])
def test_a_candidate_that_begins_to_follow_while_it_is_elected_keeps_nothing_for_the_next_election(
    begins: float,
) -> None:
    """As after an error, which it waits out for some seconds."""

    async def test() -> None:
        standby = Standby(SimulatedZooKeeper(Random(5), latency_seconds=SLOWLY))
        await standby.start(runs=False)
        await standby.other.multi(creation("a", 1))
        taking_over = asyncio.get_running_loop().create_task(standby.take_over())
        await asyncio.sleep(begins)
        standby.run()
        await taking_over
        for epoch in range(1, 20):
            # Now it hears of no change any more, and may be elected again at any moment.
            await standby.other.multi([SetData(state_path(P0), state(2, epoch))])
            assert standby.warm.reads(standby.store) is standby.store
        assert not standby.warm.known.states
        assert not standby.warm.known.unread
        assert all(not session.watches.subtrees for session in standby.server._sessions.values())

    run(test())


@pytest.mark.rule("D-122")
def test_a_server_without_watches_of_subtrees_after_one_that_had_them_ends_the_following() -> None:
    """As while the servers of an ensemble are upgraded, or set back, one by one."""

    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi(creation("a", 1))
        await standby.until_warm()
        standby.server.knows_subtree_watches = False
        standby.client.disconnect(0.1)
        await asyncio.sleep(5)
        await standby.other.multi([SetData(state_path(P0), state(3, 1))])
        await asyncio.sleep(5)
        topics, states = await standby.take_over()
        assert states[P0].leader == 3
        assert (topics, states) == await standby.read()
        assert standby.warm.why_cold

    run(test())


@pytest.mark.rule("D-122")
def test_what_is_written_after_a_restored_zookeeper_is_no_difference() -> None:
    """Its zxids are lower than those which this process saw before."""

    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi(creation("a", 2))
        backup = standby.server.tree.copy()
        for epoch in range(1, 50):
            await standby.other.multi([SetData(state_path(P0), state(2, epoch))])
        await standby.until_warm()
        standby.server.restore(backup, 6)
        await standby.is_over.wait()
        await standby.client.start_session()
        await standby.other_again()
        await standby.until_warm()
        await standby.take_over()
        await standby.other.multi([SetData(state_path(P0), state(3, 1))])
        await asyncio.sleep(COMPARISON_DELAY_S + 10)
        assert standby.differences == []

    run(test())


@pytest.mark.rule("D-122")
def test_nothing_is_compared_once_another_controller_was_elected() -> None:
    """What it wrote is newer than what was taken over here, and says nothing of it."""

    async def test() -> None:
        standby = Standby()
        await standby.start()
        await standby.other.multi(creation("a", 1))
        await standby.until_warm()
        await standby.take_over()
        later = encode_controller_epoch(ControllerEpoch(EPOCH + 1))
        await standby.other.multi([SetData(state_path(P0), state(2, 1)), SetData(CONTROLLER_EPOCH, later)])
        await asyncio.sleep(COMPARISON_DELAY_S + 10)
        assert standby.differences == []

    run(test())


@pytest.mark.rule("D-122")
def test_partitions_are_counted_before_their_states_are_read() -> None:
    async def test() -> None:
        standby = Standby(partitions_max=10)
        await standby.start(runs=False)
        for number in range(5):
            await standby.other.multi(creation(f"t{number}", 3))
        before = standby.client.requests
        standby.run()
        await asyncio.sleep(5)
        assert "more than 10 partitions" in standby.warm.why_cold
        # The watch and its end, the list of topics, their znodes; no state.
        assert standby.client.requests - before == 4

    run(test())


@pytest.mark.rule("D-122")
@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.5])
def test_elected_right_after_a_reconnection_it_reads_and_hears_nothing_of_its_own_writes(seconds: float) -> None:
    """The watch was restored with the connection, and is not confirmed yet."""

    async def test() -> None:
        standby = Standby(SimulatedZooKeeper(Random(4), latency_seconds=SLOWLY))
        await standby.start()
        await standby.other.multi(creation("a", 2))
        await standby.until_warm()
        standby.client.disconnect(0.05)
        await standby.other.multi([SetData(state_path(P0), state(3, 1))])
        await asyncio.sleep(seconds)
        _, states = await standby.take_over()
        assert states[P0].leader == 3
        await asyncio.sleep(5)
        assert all(not session.watches.subtrees for session in standby.server._sessions.values())
        assert not standby.warm.known.states

    run(test())
