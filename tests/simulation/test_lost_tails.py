"""Machines that lose power with records that were not flushed, above the checkpointed high watermark: nothing on the
disk says so. In whole simulated clusters no acknowledged record is lost while another replica in sync has it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from cluster.model.partition import LeaderAndIsr
from simulator.virtual_time_loop import virtual_loop
from state_log.record import Kind
from tests.simulation.one_partition import TP, OnePartition, run

UNFLUSHED = {
    "log_flush_interval_ms": 3_600_000,
    "replica_high_watermark_checkpoint_interval_ms": 3_600_000,
    "log_flush_offset_checkpoint_interval_ms": 3_600_000,
}


async def come_back_before_a_controller(it: OnePartition, *brokers: int) -> None:
    """The brokers register while there is no controller; then there is one."""
    for broker in brokers:
        it.agent(broker).start()
    await it.until(lambda: all(it.agent(broker).is_registered for broker in brokers), "registered")
    await asyncio.sleep(3)
    for controller in it.cluster.controllers.values():
        controller.start()
    await it.until(lambda: it.cluster.active_controller() is not None, "another controller")


def newer(it: OnePartition, before: LeaderAndIsr | None) -> bool:
    """Whether somebody leads in a later epoch."""
    active = it.cluster.active_controller()
    now = None if active is None else active.context.leaderships.known.get(TP)
    return now is not None and before is not None and now.leader > 0 and now.leader_epoch > before.leader_epoch


def end_of_first_role(it: OnePartition, broker: int) -> int:
    """Where the log ended when the present process got its first role."""
    end = next(r.log_end_offset for r in it.agent(broker).incarnations[-1].log.records() if r.kind is Kind.ROLE)
    assert end is not None
    return end


@pytest.mark.rule("D-119", "P28")
def test_a_leader_that_lost_its_tail_and_returns_before_any_controller_looks_does_not_lead_again() -> None:
    async def test(it: OnePartition) -> None:
        it.active_crash()
        await it.lose_power(1)
        await come_back_before_a_controller(it, 1)
        await it.converged()
        assert it.leader == 2
        assert it.end(1) == it.end(2) == 10
        assert b"damaged" not in it.registration(1)
        assert await it.findings(it.agent(1)) == []
        assert await it.findings(it.controller) == []

    run(OnePartition(**UNFLUSHED), test)


@pytest.mark.rule("D-119", "P28")
def test_a_follower_that_lost_its_tail_leaves_the_isr_until_it_has_caught_up() -> None:
    async def test(it: OnePartition) -> None:
        for number in range(10, 20):  # The first ones of a leader epoch are flushed with its entry.
            await it.produce(number)
        it.active_crash()
        await it.lose_power(2)
        await come_back_before_a_controller(it, 2)
        await it.converged()
        assert it.leader == 1
        assert (1,) in [record.isr for record in it.records(Kind.ISR)]

    run(OnePartition(**UNFLUSHED), test)


@pytest.mark.rule("D-119", "P28")
def test_a_machine_that_stops_again_before_a_controller_has_answered_is_still_in_doubt() -> None:
    async def test(it: OnePartition) -> None:
        it.active_crash()
        await it.lose_power(1)
        it.agent(1).start()
        await it.until(lambda: it.agent(1).is_registered, "registered")
        # The second process runs under the boot under which the first one has found what may be missing.
        await it.crash(1)
        await come_back_before_a_controller(it, 1)
        await it.converged()
        assert it.leader == 2
        assert it.end(1) == 10

    run(OnePartition(**UNFLUSHED), test)


@pytest.mark.rule("D-119")
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_leader_whose_machine_ran_on_leads_again_in_the_epoch_in_which_it_led(is_clean: bool) -> None:
    """What `kill -9` costs without a controller: nothing, as in Kafka. Nor does a restart of the whole cluster."""

    async def test(it: OnePartition) -> None:
        before = it.checker.state
        it.active_crash()
        if is_clean:
            await it.agent(1).stop()
            it.agent(1).machine.start_anew()
            it.checker.process_ended(it.agent(1), power_failed=False)
        else:
            await it.crash(1)
        await come_back_before_a_controller(it, 1)
        await asyncio.sleep(20)
        assert it.checker.state == before
        assert b"damaged" not in it.registration(1)
        assert it.end(1) == it.end(2) == 10
        await it.produce(11)

    run(OnePartition(**UNFLUSHED), test)


async def controllers_come_back_first(it: OnePartition, *brokers: int) -> None:
    """There is a controller before the brokers, which recover their logs, register, one after another."""
    for controller in it.cluster.controllers.values():
        controller.start()
    await it.until(lambda: it.cluster.active_controller() is not None, "another controller")
    await asyncio.sleep(3)
    for broker in brokers:
        it.agent(broker).start()
        await asyncio.sleep(broker % 3)


@pytest.mark.rule("D-120")
@pytest.mark.parametrize("come_back", [come_back_before_a_controller, controllers_come_back_first])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.deep) for n in range(4, 60))])
def test_where_power_fails_everywhere_the_longest_log_that_is_left_leads_and_nobody_waits_in_vain(
    seed: int, come_back: Callable[..., Awaitable[None]]
) -> None:
    async def test(it: OnePartition) -> None:
        virtual_loop().after_step = None  # What all have lost nobody has.
        for number in range(10, 20):  # The first ones of a leader epoch are flushed with its entry.
            await it.produce(number)
        before = it.checker.state
        it.active_crash()
        for broker in it.ids:
            it.agent(broker).lose_power()
        await it.until(lambda: not any(it.agent(broker).is_registered for broker in it.ids), "all are gone")
        began = asyncio.get_running_loop().time()
        order = list(it.ids)
        Random(seed).shuffle(order)
        await come_back(it, *order)
        await it.until(lambda: newer(it, before), "elected")
        assert asyncio.get_running_loop().time() - began < 20
        leader = it.controller.context.leaderships.known[TP].leader
        await it.until(lambda: set(it.isr_now()) == set(it.ids), "all in sync")
        left = {broker: end_of_first_role(it, broker) for broker in it.ids}
        assert left[leader] == max(left.values()), left
        await it.produce(20)

    run(OnePartition(seed=seed, brokers=3, **UNFLUSHED), test)


@pytest.mark.rule("D-119", "D-120", "P28", "P32", "P38", "P39")
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.deep) for n in range(6, 60))])
def test_no_acknowledged_record_is_lost_where_another_replica_in_sync_is_alive(seed: int) -> None:
    """Power fails at one broker at a time, with controllers that go and come before, meanwhile and after."""
    chance = Random(seed)

    async def test(it: OnePartition) -> None:
        for round_ in range(1, 5):
            victim = it.agent(chance.choice(it.ids))
            for controller in [c for c in it.cluster.controllers.values() if c.is_running and chance.random() < 0.7]:
                controller.crash()
            await asyncio.sleep(chance.choice((0, 1, 4)))
            victim.lose_power()
            it.checker.process_ended(victim, power_failed=True)
            await it.restart_all(chance)
            await it.converged()
            for number in range(5):
                await it.produce(100 * round_ + number)

    settings = {**UNFLUSHED, "log_flush_interval_ms": chance.choice((300, 3_600_000))}
    run(OnePartition(seed=seed, brokers=3, controllers=2, min_insync_replicas=2, **settings), test)
