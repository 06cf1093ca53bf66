"""Keeps requests for the same partitions in the order in which they arrived, though each may wait for something."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager

from cluster.model.partition import TopicPartition


class ArrivalOrder:
    """A turn begins when every turn taken before it for one of its partitions has ended; others run side by side."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, asyncio.Future[None]] = {}

    @property
    def has_turns(self) -> bool:
        """Whether anybody has a turn or waits for one."""
        return bool(self._last)

    @asynccontextmanager
    async def turn(self, partitions: Collection[TopicPartition]) -> AsyncIterator[None]:
        """Take a place at once, then wait until it is this one's turn."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        before = {self._last[tp] for tp in partitions if tp in self._last}
        self._last.update(dict.fromkeys(partitions, ended))
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            self._end(partitions, ended, before)

    def _end(
        self, partitions: Iterable[TopicPartition], ended: asyncio.Future[None], before: Iterable[asyncio.Future[None]]
    ) -> None:
        """End the turn; one that was given up while it waited lets nobody pass those before it."""
        for earlier in before:
            if not earlier.done():
                earlier.add_done_callback(lambda _: self._end(partitions, ended, before))
                return
        ended.set_result(None)
        for tp in partitions:
            if self._last.get(tp) is ended:
                del self._last[tp]
