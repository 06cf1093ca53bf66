"""Bytes pass at the rate that is set, whoever passes them."""

import asyncio

import pytest

from cluster.aio.rate_limiter import RateLimiter
from tests.brokers.agents import virtually


async def _passing(limiter: RateLimiter, *sizes: int) -> float:
    """The seconds until all of the sizes have passed, one after the other."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    for size in sizes:
        await limiter.pass_bytes(size)
    return loop.time() - start


@virtually
async def test_bytes_take_as_long_as_the_rate_says() -> None:
    limiter = RateLimiter(1000)
    assert await _passing(limiter, 500, 500, 2000) == pytest.approx(3)


@virtually
async def test_all_who_pass_share_the_rate() -> None:
    limiter = RateLimiter(1000)
    assert sorted(await asyncio.gather(*(_passing(limiter, 1000) for _ in range(3)))) == pytest.approx([1, 2, 3])


@virtually
async def test_without_a_rate_nothing_waits() -> None:
    limiter = RateLimiter()
    assert await _passing(limiter, 10**12) == 0
    limiter.set_rate(1000)
    assert await _passing(limiter, 1000) == pytest.approx(1)


@virtually
async def test_a_pause_is_not_saved_up() -> None:
    limiter = RateLimiter(1000)
    await limiter.pass_bytes(1000)
    await asyncio.sleep(100)
    assert await _passing(limiter, 2000) == pytest.approx(2)


@virtually
@pytest.mark.parametrize(("rate", "seconds"), [(4000.0, 2 + 2), (500.0, 2 + 16), (None, 2)])
async def test_who_waits_follows_a_change_of_the_rate(rate: float | None, seconds: float) -> None:
    limiter = RateLimiter(1000)
    waiting = asyncio.create_task(_passing(limiter, 10_000))
    await asyncio.sleep(2)
    limiter.set_rate(rate)
    assert await waiting == pytest.approx(seconds)


@virtually
async def test_what_waits_through_a_change_of_the_rate_is_still_owed() -> None:
    limiter = RateLimiter(1000)
    waiting = asyncio.create_task(_passing(limiter, 10_000))
    await asyncio.sleep(2)
    limiter.set_rate(2000)
    assert await _passing(limiter, 2000) == pytest.approx(4 + 1)
    assert await waiting == pytest.approx(2 + 4)


@virtually
async def test_the_same_rate_set_again_wakes_nobody() -> None:
    limiter = RateLimiter(1000)
    waiting = asyncio.create_task(_passing(limiter, 3000))
    await asyncio.sleep(1)
    limiter.set_rate(1000)
    assert await waiting == pytest.approx(3)
    assert limiter.bytes_per_second == 1000


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_that_lets_nothing_pass_is_refused(rate: float) -> None:
    with pytest.raises(AssertionError, match="never lets anything pass"):
        RateLimiter(rate)
