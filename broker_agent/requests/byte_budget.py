"""A budget of bytes that several tasks share."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple


class _Waiting(NamedTuple):
    size: int
    granted: asyncio.Future[None]


class ByteBudget:
    """At most `capacity` bytes are held at a time, granted in the order of arrival, so that nobody starves."""

    def __init__(self, capacity: int) -> None:
        self._capacity = self._free = capacity
        self._waiting: deque[_Waiting] = deque()

    @property
    def free(self) -> int:
        return self._free

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, the whole budget if that is less, for the block; waits until they are free."""
        size = min(size, self._capacity)
        if self._waiting or size > self._free:
            await self._wait(size)
        else:
            self._free -= size
        try:
            yield
        finally:
            self._give_back(size)

    async def _wait(self, size: int) -> None:
        waiting = _Waiting(size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting.granted
        except asyncio.CancelledError:
            if not waiting.granted.cancelled():
                self._give_back(size)  # It was granted in the same turn of the event loop.
            self._grant()
            raise

    def _give_back(self, size: int) -> None:
        self._free += size
        self._grant()

    def _grant(self) -> None:
        while self._waiting and (self._waiting[0].granted.cancelled() or self._waiting[0].size <= self._free):
            size, granted = self._waiting.popleft()
            if not granted.cancelled():
                self._free -= size
                granted.set_result(None)
