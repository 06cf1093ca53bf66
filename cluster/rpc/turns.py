"""Turns of requests that continue after a wait: few in each iteration of the event loop.

One event may wake ten thousand requests. If all continued in one iteration, everything else would wait for seconds.
"""

import asyncio
from collections import deque
from typing import Final

from cluster.rpc.call_kinds import CallKind

TURNS_PER_ITERATION: Final = 2
"""Few, because a server accepts about one new call of a method per iteration: more would leave new calls behind."""


class Turns:
    """Gives turns to higher kinds first, within a kind in order."""

    def __init__(self) -> None:
        self._queues: dict[CallKind, deque[asyncio.Future[None]]] = {kind: deque() for kind in CallKind}
        self._left = TURNS_PER_ITERATION
        self._is_scheduled = False

    async def next(self, kind: CallKind) -> None:
        """Wait for a turn; none is waited for as long as there are any in this iteration."""
        loop = asyncio.get_running_loop()
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._next_iteration)
        if self._left:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._queues[kind].append(turn)
        await turn

    def _next_iteration(self) -> None:
        self._left = TURNS_PER_ITERATION
        self._is_scheduled = False
        for queue in self._queues.values():
            while queue and self._left:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    self._left -= 1
        if self._left < TURNS_PER_ITERATION:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_iteration)
