import asyncio

import pytest

from cluster.rpc.call_kinds import CallKind
from cluster.rpc.turns import AT_ONCE, TURN_S_MAX, Turn, Turns
from tests.brokers.agents import virtually


async def some_iterations() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.rule("AD-6")
@virtually
async def test_only_so_many_continue_at_once_and_higher_kinds_first() -> None:
    turns, granted, taken = Turns(), list[tuple[CallKind, int]](), list[Turn]()

    async def take(kind: CallKind, number: int) -> None:
        taken.append(await turns.take(kind))
        granted.append((kind, number))

    for _ in range(AT_ONCE):
        taken.append(await turns.take(CallKind.FETCH))
    waiting = [asyncio.ensure_future(take(kind, n)) for n in (1, 2) for kind in (CallKind.WATCH, CallKind.FETCH)]
    await some_iterations()
    assert granted == []
    for turn in taken[:4]:
        turn.end()
        turn.end()
        await some_iterations()
    expected = [(CallKind.FETCH, 1), (CallKind.FETCH, 2), (CallKind.WATCH, 1), (CallKind.WATCH, 2)]
    assert granted == expected
    await asyncio.gather(*waiting)


@pytest.mark.rule("AD-6")
@virtually
async def test_a_turn_that_is_not_ended_ends_by_itself() -> None:
    turns, loop = Turns(), asyncio.get_running_loop()
    for _ in range(AT_ONCE):
        await turns.take(CallKind.FETCH)
    began = loop.time()
    await turns.take(CallKind.FETCH)
    assert loop.time() - began == pytest.approx(TURN_S_MAX)


@virtually
async def test_who_gives_up_waiting_takes_no_turn() -> None:
    turns = Turns()
    taken = [await turns.take(CallKind.FETCH) for _ in range(AT_ONCE)]
    gives_up, stays = (asyncio.ensure_future(turns.take(CallKind.FETCH)) for _ in range(2))
    late = asyncio.ensure_future(turns.take(CallKind.FETCH))
    await some_iterations()
    gives_up.cancel()
    taken[0].end()
    # Granted, and cancelled before its task ran.
    late_is_next = await stays
    late_is_next.end()
    late.cancel()
    await some_iterations()
    for turn in taken[1:]:
        turn.end()
    assert turns._taken == 0
