"""Turns of calls that were woken together, on virtual time."""

import asyncio

import pytest

from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.rpc.admission import TURN_S_MAX, TURNS_AT_ONCE, Admission, AdmittedCall
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.budgets import Peer
from cluster.rpc.call_kinds import CallKind
from tests.brokers.agents import virtually

HERE = Peer.parse("ipv4:10.0.0.1:4711")


def admission() -> Admission:
    return Admission(AdmissionLimits.from_settings(Settings()), Metrics())


async def woken(target: Admission, count: int) -> list[AdmittedCall]:
    """Calls that wait for nothing but their turns; as many as there are turns have them."""
    calls = [target.admit(CallKind.FETCH, HERE) for number in range(count)]
    for call in calls[:TURNS_AT_ONCE]:
        call.park()
        await asyncio.wait_for(call.resume(), 0.001)
    return calls


@pytest.mark.rule("AD-6")
@virtually
async def test_only_so_many_continue_at_once_and_more_urgent_ones_do_not_wait() -> None:
    target, continued = admission(), list[int]()
    calls = await woken(target, TURNS_AT_ONCE + 2)

    async def resume(number: int) -> None:
        await calls[number].resume()
        continued.append(number)

    waiting = [asyncio.ensure_future(resume(TURNS_AT_ONCE + number)) for number in range(2)]
    for kind in (CallKind.CONTROL, CallKind.REPLICATION, CallKind.PRODUCE):
        await asyncio.wait_for(target.admit(kind, HERE).resume(), 0.001)
    assert continued == []
    calls[0].end()
    await asyncio.sleep(0.001)
    assert continued == [TURNS_AT_ONCE]
    calls[1].park()
    calls[1].park()
    await asyncio.sleep(0.001)
    assert continued == [TURNS_AT_ONCE, TURNS_AT_ONCE + 1]
    await asyncio.gather(*waiting)


@pytest.mark.rule("AD-6")
@virtually
async def test_a_turn_that_is_not_ended_ends_by_itself() -> None:
    target, loop = admission(), asyncio.get_running_loop()
    calls = await woken(target, TURNS_AT_ONCE + 1)
    began = loop.time()
    await calls[-1].resume()
    assert loop.time() - began == pytest.approx(TURN_S_MAX)


@virtually
async def test_who_gives_up_waiting_takes_no_turn() -> None:
    target = admission()
    calls = await woken(target, TURNS_AT_ONCE + 2)
    gives_up, stays = (asyncio.ensure_future(call.resume()) for call in calls[TURNS_AT_ONCE:])
    await asyncio.sleep(0)
    gives_up.cancel()
    calls[0].end()
    await asyncio.wait_for(stays, 0.001)
    for call in calls[1:]:
        call.end()
    for _ in range(TURNS_AT_ONCE):
        await asyncio.wait_for(target.turns.acquire(), 0.001)
