"""Damaged replicas in whole simulated clusters: none is elected where another holds what it has lost."""

import asyncio
from random import Random

import pytest

from simulator.nodes import LOG_DIRECTORY
from simulator.virtual_time_loop import virtual_loop
from state_log.record import Kind
from tests.simulation.one_partition import TP, OnePartition, run

DELAY_S = 60


@pytest.mark.rule("D-40", "P28")
@pytest.mark.parametrize("position", [0.05, 0.75])
def test_a_damaged_leader_that_no_controller_saw_crash_does_not_lead_again(position: float) -> None:
    async def test(it: OnePartition) -> None:
        controller = it.controller
        controller.crash()
        await it.crash(1)
        it.flip(1, position)
        it.agent(1).start()
        await it.until(lambda: it.agent(1).is_registered, "registered")
        await asyncio.sleep(3)
        controller.start()
        await it.until(lambda: it.leader == 2, "elected")
        await it.converged()
        assert it.end(1) == it.end(2) == 10
        await asyncio.sleep(10)
        assert await it.findings(it.agent(1)) == []
        assert it.isr == {1, 2}

    run(OnePartition(), test)


@pytest.mark.rule("D-40", "P28")
def test_a_damaged_follower_leaves_the_isr_and_returns() -> None:
    async def test(it: OnePartition) -> None:
        controller = it.controller
        controller.crash()
        await it.crash(2)
        it.flip(2, 0.75)
        it.agent(2).start()
        controller.start()
        await it.converged()
        assert it.leader == 1
        assert (1,) in [record.isr for record in it.records(Kind.ISR)]

    run(OnePartition(), test)


@pytest.mark.rule("D-41", "R9.32", "P28")
def test_a_damaged_replica_alone_in_the_isr_waits_for_nobody_for_ever() -> None:
    async def test(it: OnePartition) -> None:
        await it.crash(2, 1)
        it.flip(1, 0.75)
        virtual_loop().after_step = None  # What it has lost nobody else has.
        began = asyncio.get_running_loop().time()
        it.agent(1).start()
        await it.until(lambda: it.agent(1).is_registered, "registered")
        await asyncio.sleep(10)
        (finding,) = await it.findings(it.controller)
        assert (finding.kind, finding.topic, finding.partition, finding.broker) == ("damaged_replica_waits", *TP, 1)
        assert it.controller.context.leaderships.known[TP].leader == -1
        await it.until(lambda: it.controller.context.leaderships.known[TP].leader == 1, "elected", 2 * DELAY_S)
        assert asyncio.get_running_loop().time() - began >= DELAY_S
        assert await it.findings(it.controller) == []
        assert [found.kind for found in await it.findings(it.agent(1))] == ["damaged_replica"]
        await it.until(lambda: b"damaged" not in it.registration(1), "its report is over")

    run(OnePartition(), test)


@pytest.mark.rule("D-40", "D-41", "R9.32", "P28")
def test_the_next_controller_learns_of_damage_before_it_elects() -> None:
    async def test(it: OnePartition) -> None:
        await it.crash(2, 1)
        it.flip(1, 0.75)
        virtual_loop().after_step = None
        it.agent(1).start()
        await it.until(lambda: it.agent(1).is_registered, "registered")
        await asyncio.sleep(20)
        it.controller.crash()
        await it.until(lambda: it.cluster.active_controller() is not None, "another controller")
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(DELAY_S - 20)
        assert it.controller.context.leaderships.known[TP].leader == -1
        await it.until(lambda: it.controller.context.leaderships.known[TP].leader == 1, "elected", DELAY_S)
        assert asyncio.get_running_loop().time() - began < DELAY_S + 15

    run(OnePartition(controllers=2), test)


SCRUB = {
    "klamm_log_scrub_bytes_per_second": 1 << 20,
    "klamm_log_scrub_interval_ms": 5000,
    "log_initial_task_delay_ms": 10_000,
}


@pytest.mark.rule("R9.30", "R9.31", "P28")
@pytest.mark.parametrize("segment_bytes", [300, 1 << 30])
@pytest.mark.parametrize("victim", [1, 2])
def test_the_scrub_cures_a_leader_and_a_follower(victim: int, segment_bytes: int) -> None:
    async def test(it: OnePartition) -> None:
        virtual_loop().after_step = None  # A whole replica is given up on purpose, below its high watermark.
        good = it.content(3 - victim)
        it.flip(victim, 0.3)
        assert it.content(victim) != good
        await it.until(lambda: it.content(victim) == good and len(it.isr_now()) == 2, "cured")
        assert it.controller.context.leaderships.known[TP].leader == (2 if victim == 1 else 1)
        found, refetched = [record for record in it.records(Kind.TRUNCATION) if record.reason == "scrub"]
        assert (found.broker, refetched.broker, refetched.to_offset) == (victim, victim, 0)
        assert found.cause is not None
        assert found.cause.event == "LogScrub"
        (election,) = [record for record in it.records(Kind.PARTITION) if record.reason == "scrub"]
        assert election.isr == (3 - victim,)
        await it.produce(11)
        await it.until(lambda: it.end(victim) == 11, "replicated")
        assert await it.findings(it.agent(victim)) == []

    run(OnePartition(log_segment_bytes=segment_bytes, **SCRUB), test)


@pytest.mark.rule("R9.31")
def test_a_replica_alone_in_sync_stays_until_another_one_is() -> None:
    async def test(it: OnePartition) -> None:
        virtual_loop().after_step = None
        good = it.content(1)
        await it.crash(2)
        it.flip(1, 0.3)
        await asyncio.sleep(30)
        (finding,) = await it.findings(it.agent(1))
        assert (finding.kind, finding.topic, finding.partition, finding.broker) == ("damaged_replica", *TP, 1)
        assert f"{LOG_DIRECTORY}/{TP}/{0:020d}.log at byte" in finding.detail
        assert it.controller.context.leaderships.known[TP].leader == 1
        it.agent(2).start()
        await it.until(lambda: it.content(1) == good and len(it.isr_now()) == 2, "cured")

    run(OnePartition(**SCRUB), test)


@pytest.mark.rule("R9.30")
def test_what_is_sound_is_left_alone() -> None:
    async def test(it: OnePartition) -> None:
        await asyncio.sleep(60)
        await it.converged()
        assert it.records(Kind.TRUNCATION) == []
        assert await it.findings(it.agent(1)) == []

    run(OnePartition(log_segment_bytes=300, **SCRUB), test)


@pytest.mark.rule("D-40", "D-41", "P28", "P32", "P38", "P39")
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.deep) for n in range(6, 60))])
def test_no_acknowledged_record_is_lost_where_another_replica_in_sync_is_alive(seed: int) -> None:
    """Crashes with a damaged batch, with controllers that go and come before, meanwhile and after."""
    chance = Random(seed)

    async def test(it: OnePartition) -> None:
        for round_ in range(1, 5):
            victim = chance.choice(it.ids)
            gone = [c for c in it.cluster.controllers.values() if c.is_running and chance.random() < 0.6]
            for controller in gone:
                controller.crash()
            await asyncio.sleep(chance.choice((0, 1, 4)))
            await it.crash(victim)
            it.flip_records(victim, chance)
            await it.restart_all(chance)
            await it.converged()
            for number in range(5):
                await it.produce(100 * round_ + number)
            await asyncio.sleep(3)

    run(
        OnePartition(brokers=3, controllers=2, min_insync_replicas=2, log_segment_bytes=chance.choice((300, 1 << 30))),
        test,
    )
