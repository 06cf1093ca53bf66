"""Lets requests that continue after a wait take turns, few at a time.

One event may wake ten thousand requests. If all continued at once, the completions of their responses would queue up in
gRPC, and everything else would wait behind them for seconds.
"""

import asyncio
from collections import deque
from typing import Final

from cluster.rpc.call_kinds import CallKind

AT_ONCE: Final = 64
"""The number of requests that continue at the same time; enough to keep the loop busy while responses are sent."""
TURN_S_MAX: Final = 0.1
"""A turn ends after this many seconds even if its response was not taken: one slow client must not hold up others."""


class Turn:
    """Stands for one request that continues; ends with `end`, or by itself after `TURN_S_MAX`."""

    def __init__(self, turns: "Turns") -> None:
        self._turns = turns
        self._limit: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(TURN_S_MAX, self.end)

    def end(self) -> None:
        """Let the next request continue; a second call has no effect."""
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
            self._turns.end_one()


class Turns:
    """Gives turns to higher kinds first, and within a kind in the order of arrival."""

    def __init__(self) -> None:
        self._queues: dict[CallKind, deque[asyncio.Future[None]]] = {kind: deque() for kind in CallKind}
        self._taken = 0

    async def take(self, kind: CallKind) -> Turn:
        """Wait for a turn."""
        if self._taken < AT_ONCE:
            self._taken += 1
            return Turn(self)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[kind].append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.end_one()
            raise
        return Turn(self)

    def end_one(self) -> None:
        """Pass a turn that has ended to the next request in order."""
        for queue in self._queues.values():
            while queue:
                granted = queue.popleft()
                if not granted.done():
                    granted.set_result(None)
                    return
        self._taken -= 1
