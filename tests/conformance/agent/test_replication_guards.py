"""What goes wrong when one guard of replication is left out: each of these loses records or forks logs without it.

Source: KIP-101 (its two scenarios), KIP-279 (short leaderships), KIP-320 (fencing by epochs).
"""

import asyncio

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from tests.brokers.agents import TP, AgentProcess, AgentWorld, until, virtually

MODES = ["fetch", "epoch-query"]


def separate(world: AgentWorld, one: int, other: int) -> None:
    world.network.cut(f"broker-{one}:9092", f"broker-{other}:9092")
    world.network.cut(f"broker-{other}:9092", f"broker-{one}:9092")


def batches(agent: AgentProcess) -> list[tuple[int, int]]:
    """(last offset, leader epoch) of each batch."""
    log = agent.logs.get(TP)
    assert log is not None
    return [(batch.last_offset, batch.leader_epoch) for batch in log.batches()]


def epochs(agent: AgentProcess) -> list[tuple[int, int]]:
    log = agent.logs.get(TP)
    assert log is not None
    return [(entry.epoch, entry.start_offset) for entry in log.epoch_entries]


@pytest.mark.rule("P10", "P28", "R5.8", "R5.13", "R5.29")
@pytest.mark.parametrize("mode", MODES)
def test_a_follower_that_restarts_does_not_cut_what_it_did_not_yet_know_was_committed(mode: str) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld(klamm_replica_truncation_mode=mode, replica_fetch_backoff_ms=100)
        await world.start(1, 2)
        await world.create(1, [1, 2])
        first, second = world.agents[1], world.agents[2]
        produced = asyncio.ensure_future(first.produce(2, acks=-1))
        await until(lambda: first.offsets() == (2, 2))
        assert second.offsets() == (0, 2)  # It hears of the commit with its next fetch only.
        assert (await produced).error_code is ErrorCode.NONE
        separate(world, 1, 2)
        await second.crash()
        await asyncio.sleep(7)
        await second.start()
        world.decide(1, [1, 2])
        await world.update_metadata()
        await world.tell(1, 2)
        await asyncio.sleep(1)  # It cannot ask the leader how far they agree.
        assert second.offsets()[1] == 2
        world.decide(2, [2])
        await world.tell(2)
        assert second.offsets() == (2, 2)
        assert batches(second) == [(1, 0)]
        await world.stop()

    check()


@pytest.mark.rule("P8", "R5.15", "R6.7")
@pytest.mark.parametrize("mode", MODES)
def test_records_at_the_same_offsets_but_of_another_epoch_are_replaced_however_low_the_high_watermark(
    mode: str,
) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld(klamm_replica_truncation_mode=mode, replica_fetch_backoff_ms=100)
        await world.start(1, 2)
        await world.create(1, [1, 2])
        first, second = world.agents[1], world.agents[2]
        separate(world, 1, 2)
        await asyncio.sleep(1)
        await first.produce(1)
        await first.produce(2)
        assert (first.offsets(), second.offsets()) == ((0, 3), (0, 0))
        await first.crash()
        world.decide(2, [2])
        await world.update_metadata(2, to=[2])
        await world.tell(2)
        await second.produce(3)
        await second.produce(1)
        await asyncio.sleep(7)
        await first.start()
        world.network.heal_all()
        await world.update_metadata()
        await world.tell(1)
        await until(lambda: first.offsets() == (4, 4), within_s=60)
        assert batches(first) == batches(second) == [(2, 1), (3, 1)]
        assert epochs(first) == epochs(second) == [(1, 0)]
        await world.stop()

    check()


@pytest.mark.rule("R5.16", "R6.3", "R6.20", "P8", "P10")
@pytest.mark.parametrize("mode", MODES)
def test_a_follower_does_not_trust_a_leader_that_does_not_know_of_its_own_election(mode: str) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld(klamm_replica_truncation_mode=mode, replica_fetch_backoff_ms=100)
        await world.start(1, 2, 3)
        await world.create(1, [1, 2, 3])
        first, second, third = (world.agents[number] for number in (1, 2, 3))
        await first.produce(2, acks=-1)
        separate(world, 1, 3)
        separate(world, 2, 3)
        await asyncio.sleep(1)
        await first.produce(3)
        await until(lambda: second.offsets()[1] == 5)
        assert third.offsets()[1] == 2
        world.decide(3, [3, 2, 1])
        await world.tell(2)
        world.network.heal_all()
        await asyncio.sleep(2)
        assert second.offsets()[1] == 5  # Broker 3 still believes in epoch 0, in which it is not even the leader.
        await world.tell(3)
        await until(lambda: second.offsets()[1] == 2, within_s=60)
        await world.tell(1)
        await until(lambda: first.offsets()[1] == 2, within_s=60)
        await third.produce(1, acks=-1, timeout_ms=10_000)
        await until(lambda: {agent.offsets() for agent in (first, second, third)} == {(3, 3)})
        await world.stop()

    check()


@pytest.mark.rule("R6.3", "R6.10", "P10", "P16")
@virtually
async def test_a_fetch_of_an_older_epoch_commits_nothing() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    leader = world.agents[1]
    separate(world, 1, 2)
    await asyncio.sleep(1)
    await leader.produce(3)
    world.decide(1, [1, 2])
    await world.tell(1)
    before = leader.partition().remote[BrokerId(2)]
    for epoch, code in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        assert (await leader.fetch(3, replica=2, epoch=epoch, last_epoch=0)).error_code is code
        assert leader.partition().remote[BrokerId(2)] == before
        assert leader.offsets() == (0, 3)
    assert (await leader.fetch(3, replica=2, epoch=1, last_epoch=0)).error_code is ErrorCode.NONE
    assert leader.offsets() == (3, 3)
    world.network.heal_all()
    await world.stop()


@pytest.mark.rule("R3.7a", "R6.20", "R9.11", "P8")
@pytest.mark.parametrize("mode", MODES)
def test_a_leadership_without_records_tells_where_a_lost_one_before_it_has_to_end(mode: str) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld(klamm_replica_truncation_mode=mode, replica_fetch_backoff_ms=100)
        await world.start(1, 2)
        await world.create(1, [1, 2])
        first, second = world.agents[1], world.agents[2]
        await first.produce(3, acks=-1)
        await until(lambda: second.offsets() == (3, 3))
        separate(world, 1, 2)
        world.decide(2, [2, 1])
        await world.tell(2)
        await second.produce(2)
        world.decide(1, [1, 2])
        await world.tell(1)
        assert epochs(first) == [(0, 0), (2, 3)]
        world.network.heal_all()
        await world.tell(2)
        await until(lambda: second.offsets()[1] == 3, within_s=60)
        assert epochs(second) == [(0, 0)]
        await first.produce(1, acks=-1, timeout_ms=10_000)
        await until(lambda: second.offsets() == (4, 4))
        assert batches(first) == batches(second) == [(2, 0), (3, 2)]
        await world.stop()

    check()
