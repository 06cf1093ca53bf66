"""The Workers of a simulated agent: no threads, but the work takes virtual time, in which other things happen."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

T = TypeVar("T")


class SimulatedWorkers:
    """Pieces of work end in any order. `latency_s`: the shortest and longest time of one."""

    def __init__(self, random: Random, *, latency_s: tuple[float, float]) -> None:
        self._random, self._latency_s = random, latency_s

    async def run(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(self._random.uniform(*self._latency_s))
        return work()
