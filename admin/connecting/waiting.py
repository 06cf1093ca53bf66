"""Says once what a client waits for, when a wait has lasted for two seconds.

A wait may contain others: a wait for a topic's metadata contains one for the controller that is asked. The innermost
wait that has lasted a while says most, so that is the one to describe.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

_T = TypeVar("_T")

NOTICE_AFTER_S: Final = 2.0
_LASTING_AFTER_S: Final = 1.0
"""A wait that is younger may be one of many short ones."""
_AGAIN_AFTER_S: Final = 0.25
_SAME_AFTER_S: Final = 10.0
_OUTLASTS_S: Final = 0.1
_LEFT_LEAST_S: Final = 0.5
"""Where less is left, the failure says it all soon enough."""


class Notice(NamedTuple):
    """Holds one line that says what is awaited and until when. `has_limit`: whether that time ends the whole wait."""

    text: str
    has_limit: bool


OnWait = Callable[[Notice], None]


class Wait(Struct, eq=False):
    """`what` says why there is no answer yet; `ends_at`: None where the wait has no end. Times: of the event loop.

    `is_fixed`: no option changes when it ends.
    """

    what: Callable[[], str]
    began_at: float
    ends_at: float | None
    timer: asyncio.TimerHandle
    is_fixed: bool = False
    is_noticed: bool = False


class ClientWaits:
    """Keeps the waits of one client. `tell` takes each notice; it is None if nobody reads them."""

    def __init__(self, tell: OnWait | None = None) -> None:
        self._tell = tell
        self._waits: dict[Wait, None] = {}
        self._fallback: tuple[float, str] | None = None
        self._said = ("", 0.0)
        """What was said last, and when."""

    def begin(self, what: Callable[[], str], limit_s: float | None, *, is_fixed: bool = False) -> Wait:
        """Begin a wait, which `end` must end; without a limit it lasts until there is an answer."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        timer = loop.call_later(NOTICE_AFTER_S, self._notice)
        wait = Wait(what, now, None if limit_s is None else now + limit_s, timer, is_fixed)
        self._waits[wait] = None
        return wait

    def end(self, wait: Wait) -> None:
        """End a wait."""
        wait.timer.cancel()
        self._waits.pop(wait, None)

    @contextmanager
    def named(self, what: Callable[[], str], limit_s: float | None, *, is_fixed: bool = False) -> Iterator[None]:
        """Count this block as a wait, which ends after `limit_s` at the latest."""
        wait = self.begin(what, limit_s, is_fixed=is_fixed)
        try:
            yield
        finally:
            self.end(wait)

    async def answers(
        self, questions: Sequence[tuple[str, Awaitable[_T]]], limit_s: float, *, is_fixed: bool = False
    ) -> list[_T]:
        """Await the answers to questions that are asked at once, each with the name of the node that is asked.

        While they last, the wait names those that have not answered.
        """
        silent = Counter(name for name, _ in questions)

        async def answer(name: str, question: Awaitable[_T]) -> _T:
            try:
                return await question
            finally:
                silent[name] -= 1

        with self.named(lambda: f"no answer of {together(+silent)} yet", limit_s, is_fixed=is_fixed):
            return await asyncio.gather(*(answer(name, question) for name, question in questions))

    @contextmanager
    def command(self) -> Iterator[None]:
        """Notice the first wait of this block that lasts a while, after two seconds, where all others are short."""
        timer = asyncio.get_running_loop().call_later(NOTICE_AFTER_S, self._notice)
        try:
            yield
        finally:
            timer.cancel()

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
                self._said = ("", 0.0)
                for wait in self._waits:
                    wait.is_noticed = False
                loop.call_later(_OUTLASTS_S, self._notice)

    def _notice(self) -> None:
        if self._tell is None or any(wait.is_noticed for wait in self._waits):
            return
        now = asyncio.get_running_loop().time()
        wait = next((wait for wait in reversed(self._waits) if now - wait.began_at >= _LASTING_AFTER_S), None)
        if wait is None and self._waits:
            asyncio.get_running_loop().call_later(_AGAIN_AFTER_S, self._notice)
        if wait is not None and (until := self._until(wait.ends_at, now)):
            for known in self._waits:
                known.is_noticed = True
            has_limit = wait.ends_at is not None and self._fallback is None and not wait.is_fixed
            self._tell_once(wait.what(), until, now, has_limit=has_limit)

    def _tell_once(self, what: str, until: str, now: float, *, has_limit: bool) -> None:
        """Tell it, unless that was said shortly before: of a node that hangs, and is asked several things."""
        assert self._tell is not None, "somebody reads it"
        said, at = self._said
        if what != said or now - at >= _SAME_AFTER_S:
            self._said = what, now
            self._tell(Notice(f"{what}; {until}", has_limit))

    def _until(self, ends_at: float | None, now: float) -> str:
        """Say what will end the wait; "" if that is so near that nothing need be said."""
        if self._fallback is not None:
            at, to = self._fallback
            return f"{to} in {max(1, at - now):.0f} s"
        if ends_at is None:
            return "waiting until one comes"
        return f"waiting up to {ends_at - now:.0f} s more" if ends_at - now >= _LEFT_LEAST_S else ""


def together(names: Iterable[str]) -> str:
    """Join the names of nodes by role: `controllers 1001, 1002, broker 1`; names without a role as they are."""
    by_role: dict[str, list[str]] = {}
    for name in names:
        role, _, node = name.rpartition(" ")
        by_role.setdefault(role, []).append(node)
    return ", ".join(
        (f"{role}{'s' if len(nodes) > 1 else ''} " if role else "") + ", ".join(sorted(nodes, key=_by_number))
        for role, nodes in by_role.items()
    )


def _by_number(node: str) -> int:
    """Order of ids; addresses keep theirs."""
    return int(node) if node.isdecimal() else 0
