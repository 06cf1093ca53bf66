"""Items are fetched in windows, of which the next is on its way while one is worked on, and no more."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from cluster.aio.windows import in_windows


class Source:
    """Counts what is being fetched and what was given up."""

    def __init__(self) -> None:
        self.begun: list[Sequence[int]] = []
        self.given_up = 0

    async def fetch(self, items: Sequence[int]) -> int:
        self.begun.append(items)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if 13 in items:
            raise ValueError("13")
        return sum(items)


async def test_each_window_comes_in_order_with_what_was_fetched_for_it() -> None:
    source = Source()
    assert [found async for found in in_windows(range(5), 2, source.fetch)] == [
        (range(2), 1),
        (range(2, 4), 5),
        (range(4, 5), 4),
    ]
    assert len(source.begun) == 3


async def test_no_more_than_the_next_window_is_on_its_way() -> None:
    source = Source()
    assert [len(source.begun) async for _ in in_windows(range(8), 2, source.fetch)] == [2, 3, 4, 4]


@pytest.mark.parametrize("items", [[], [1], [1, 2]])
async def test_what_fits_into_one_window_is_fetched_at_once(items: list[int]) -> None:
    assert [found async for found in in_windows(items, 2, Source().fetch)] == [(items, sum(items))]


async def test_an_error_ends_it_and_gives_up_what_is_on_its_way() -> None:
    source = Source()

    async def work() -> None:
        async with aclosing(in_windows([1, 13, 2, 3], 1, source.fetch)) as windows:
            async for _ in windows:
                continue

    with pytest.raises(ValueError, match="13"):
        await work()
    await asyncio.sleep(0)
    assert len(source.begun) == 3
    assert source.given_up == 1


class Working:
    """Counts what is being worked on, which takes some rounds of the event loop, each window a little longer."""

    def __init__(self) -> None:
        self.running = 0

    async def on(self, items: Sequence[int]) -> None:
        self.running += 1
        try:
            for _ in range(20 * items[0]):
                await asyncio.sleep(0)
        finally:
            self.running -= 1


async def test_nothing_is_left_running_when_whoever_takes_the_windows_stops_early() -> None:
    working = Working()
    async with aclosing(in_windows([1, 2, 3], 1, working.on)) as windows:
        async for _ in windows:
            assert working.running == 1
            break
    assert working.running == 0


@pytest.mark.parametrize("rounds", [0, 1, 2, 10, 30])
async def test_nothing_is_left_running_wherever_it_is_cancelled(rounds: int) -> None:
    working = Working()

    async def take_all() -> None:
        async with aclosing(in_windows([1, 2, 3], 1, working.on)) as windows:
            async for _ in windows:
                continue

    taking = asyncio.ensure_future(take_all())
    for _ in range(rounds):
        await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait([taking])
    assert working.running == 0
