"""The shared budget of bytes."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from broker_agent.requests.batch_validation import ByteBudget
from simulator.virtual_time_loop import VirtualTimeLoop
from tests.examples import examples


async def test_a_large_wish_is_not_passed_by_smaller_ones_that_came_later() -> None:
    budget, began = ByteBudget(10), []

    async def hold(size: int, release: asyncio.Event) -> None:
        async with budget.hold(size):
            began.append(size)
            await release.wait()

    releases = [asyncio.Event() for _ in range(4)]
    tasks = [asyncio.ensure_future(hold(*each)) for each in zip((6, 8, 1, 2), releases, strict=True)]
    await asyncio.sleep(0)
    assert began == [6]
    releases[0].set()
    await asyncio.wait(tasks[:1])
    await asyncio.sleep(0)
    assert began == [6, 8, 1]
    for release in releases:
        release.set()
    await asyncio.gather(*tasks)
    assert budget.free == 10


async def test_more_than_there_is_takes_all_of_it() -> None:
    budget = ByteBudget(10)
    async with budget.hold(1000):
        assert budget.free == 0
    assert budget.free == 10


@examples(80, deep=200)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=20))
def test_whatever_is_given_up_all_comes_back(wishes: list[tuple[int, int, int, bool]]) -> None:
    budget, held = ByteBudget(10), [0]

    async def hold(size: int, start: int, length: int) -> None:
        await asyncio.sleep(start)
        async with budget.hold(size):
            held[0] += min(size, 10)
            assert held[0] <= 10
            try:
                await asyncio.sleep(length)
            finally:
                held[0] -= min(size, 10)

    async def run() -> None:
        tasks = [asyncio.ensure_future(hold(size, start, length)) for size, start, length, _ in wishes]
        await asyncio.sleep(3)
        for task, (*_, is_given_up) in zip(tasks, wishes, strict=True):
            if is_given_up:
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        assert budget.free == 10

    VirtualTimeLoop(max_steps=100_000).run_until_complete(run())
