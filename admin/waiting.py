"""Says once what a client waits for, when a wait has lasted for two seconds.

A wait may contain others: a wait for a topic's metadata contains one for the controller that is asked. The innermost
wait that has lasted a while says most, so that is the one to describe.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from msgspec import Struct

NOTICE_AFTER_S: Final = 2.0
_LASTING_AFTER_S: Final = 1.0
"""A younger wait is not described: it may be one of many short ones."""
_OUTLASTS_S: Final = 0.1
_LEFT_LEAST_S: Final = 1.5
"""If less time is left, nothing is said: the failure will say it all soon enough."""


class Notice(NamedTuple):
    """Holds one line that says what is awaited and until when. `has_limit`: whether that time ends the whole wait."""

    text: str
    has_limit: bool


OnWait = Callable[[Notice], None]


class Wait(Struct, eq=False):
    """Describes one wait. `what` says why there is no answer yet; `ends_at` is None if the wait has no end.

    Times are those of the event loop.
    """

    what: Callable[[], str]
    began_at: float
    ends_at: float | None
    timer: asyncio.TimerHandle
    is_noticed: bool = False


class ClientWaits:
    """Keeps the waits of one client. `tell` takes each notice; it is None if nobody reads them."""

    def __init__(self, tell: OnWait | None = None) -> None:
        self._tell = tell
        self._waits: dict[Wait, None] = {}
        self._fallback: tuple[float, str] | None = None

    def begin(self, what: Callable[[], str], limit_s: float | None) -> Wait:
        """Begin a wait, which `end` must end; without a limit it lasts until there is an answer."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        timer = loop.call_later(NOTICE_AFTER_S, self._notice)
        wait = Wait(what, now, None if limit_s is None else now + limit_s, timer)
        self._waits[wait] = None
        return wait

    def end(self, wait: Wait) -> None:
        """End a wait."""
        wait.timer.cancel()
        self._waits.pop(wait, None)

    @contextmanager
    def named(self, what: Callable[[], str], limit_s: float) -> Iterator[None]:
        """Count this block as a wait, which ends after `limit_s` at the latest."""
        wait = self.begin(what, limit_s)
        try:
            yield
        finally:
            self.end(wait)

    @contextmanager
    def falling_back(self, after_s: float, to: str) -> Iterator[None]:
        """Say of waits in this block that something else is tried after `after_s` seconds; `to` says what.

        A wait that outlasts the block is described again, because that brought nothing either.
        """
        loop = asyncio.get_running_loop()
        self._fallback = (loop.time() + after_s, to)
        try:
            yield
        finally:
            self._fallback = None
            if any(wait.is_noticed for wait in self._waits):
                for wait in self._waits:
                    wait.is_noticed = False
                loop.call_later(_OUTLASTS_S, self._notice)

    def _notice(self) -> None:
        if self._tell is None or any(wait.is_noticed for wait in self._waits):
            return
        now = asyncio.get_running_loop().time()
        wait = next((wait for wait in reversed(self._waits) if now - wait.began_at >= _LASTING_AFTER_S), None)
        if wait is not None and (until := self._until(wait.ends_at, now)):
            for known in self._waits:
                known.is_noticed = True
            has_limit = wait.ends_at is not None and self._fallback is None
            self._tell(Notice(f"{wait.what()}; {until}", has_limit))

    def _until(self, ends_at: float | None, now: float) -> str:
        """Say what will end the wait; "" if that is so near that nothing need be said."""
        if self._fallback is not None:
            at, to = self._fallback
            return f"{to} in {max(1, at - now):.0f} s"
        if ends_at is None:
            return "waiting until one comes"
        return f"waiting up to {ends_at - now:.0f} s more" if ends_at - now >= _LEFT_LEAST_S else ""
