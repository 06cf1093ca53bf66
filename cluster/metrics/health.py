"""The health of a process, asked for on its own event loop from the thread that serves HTTP.

A process that is stopped, or whose event loop is blocked, cannot describe itself; that is what makes it unhealthy.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from msgspec import Struct

ANSWER_TIMEOUT_S: Final = 3.0
"""A loop that has run no callback for so long is stuck; its longest computations take a fraction of it."""


class Health(Struct, frozen=True):
    """`state`: `active`, `standby`, `registered`, or what is wrong. `is_alive`: whether the event loop answers."""

    state: str
    is_healthy: bool
    is_alive: bool = True


RUNNING: Final = Health("running", is_healthy=True)
"""Of a process without an event loop to ask: it answers, and says no more."""
_STUCK: Final = Health("the event loop does not respond", is_healthy=False, is_alive=False)
_STOPPED: Final = Health("stopped", is_healthy=False, is_alive=False)


class HealthCheck:
    """Describes the process of the event loop that it is made on. `ask` may be called on any other thread."""

    def __init__(self, describe: Callable[[], Health], *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._describe, self._timeout_s = describe, timeout_s
        self._loop = asyncio.get_running_loop()

    def ask(self) -> Health:
        """Ask the process how it is; the answer may be that it does not respond in time."""
        answer: Future[Health] = Future()

        def describe() -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(self._describe())

        try:
            self._loop.call_soon_threadsafe(describe)
        except RuntimeError:
            return _STOPPED  # The loop is closed.
        try:
            return answer.result(self._timeout_s)
        except TimeoutError:
            return _STUCK
