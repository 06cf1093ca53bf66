"""What a client waits for: said once, when a wait has lasted for two seconds.

A wait may have others in it, such as one for a topic's metadata that asks the controller. The innermost that has lasted
a while says most, so that one is described.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from msgspec import Struct

NOTICE_AFTER_S: Final = 2.0
_LASTING_AFTER_S: Final = 1.0
"""A wait that is younger may be one of many short ones."""
_LEFT_LEAST_S: Final = 1.5
"""Where less is left, the failure says it all soon enough."""


class Notice(NamedTuple):
    """A line of text about a wait: what is waited for and until when. `has_limit`: whether the client's timeout says
    until when.
    """

    text: str
    has_limit: bool


OnWait = Callable[[Notice], None]


class Wait(Struct, eq=False):
    """A wait for an answer. `what` says why there is none yet; `ends_at`, by the event loop's clock, None: no end."""

    what: Callable[[], str]
    began_at: float
    ends_at: float | None
    timer: asyncio.TimerHandle
    is_noticed: bool = False


class Waiting:
    """The waits of one client. `tell`: takes each notice; None: nobody reads it."""

    def __init__(self, tell: OnWait | None = None) -> None:
        self._tell = tell
        self._waits: dict[Wait, None] = {}
        self._fallback: tuple[float, Notice] | None = None

    def begin(self, what: Callable[[], str], limit_s: float | None) -> Wait:
        """Begin a wait, which `end` must end; without a limit it lasts until there is an answer."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        timer = loop.call_later(NOTICE_AFTER_S, self._notice)
        wait = Wait(what, now, None if limit_s is None else now + limit_s, timer)
        self._waits[wait] = None
        return wait

    def end(self, wait: Wait) -> None:
        wait.timer.cancel()
        self._waits.pop(wait, None)

    @contextmanager
    def named(self, what: Callable[[], str], limit_s: float) -> Iterator[None]:
        """Wait in this block, for `limit_s` at most."""
        wait = self.begin(what, limit_s)
        try:
            yield
        finally:
            self.end(wait)

    @contextmanager
    def falling_back(self, after_s: float, to: str, *, has_limit: bool) -> Iterator[None]:
        """Say that an answer that does not come in this block is taken from elsewhere later; `to` says where.

        `has_limit`: whether the client's timeout says after how long.
        """
        self._fallback = (asyncio.get_running_loop().time() + after_s, Notice(to, has_limit))
        try:
            yield
        finally:
            self._fallback = None

    def _notice(self) -> None:
        if self._tell is None or any(wait.is_noticed for wait in self._waits):
            return
        now = asyncio.get_running_loop().time()
        wait = next(wait for wait in reversed(self._waits) if now - wait.began_at >= _LASTING_AFTER_S)
        until = self._until(wait.ends_at, now)
        if until is not None:
            for known in self._waits:
                known.is_noticed = True
            self._tell(Notice(f"{wait.what()}; {until.text}", until.has_limit))

    def _until(self, ends_at: float | None, now: float) -> Notice | None:
        """What comes of the wait; None where that is so near that nothing need be said."""
        if self._fallback is not None and self._fallback[0] - now >= _LEFT_LEAST_S:
            at, to = self._fallback
            return Notice(f"{to.text} in {at - now:.0f} s", to.has_limit)
        if ends_at is None:
            return Notice("waiting until one comes", has_limit=False)
        left_s = ends_at - now
        return Notice(f"waiting up to {left_s:.0f} s more", has_limit=True) if left_s >= _LEFT_LEAST_S else None
