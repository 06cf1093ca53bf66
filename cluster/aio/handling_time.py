"""Measures how long the handling of one request occupies a thread.

Source: Kafka RequestChannel.Request.requestThreadTimeNanos.
"""

from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from types import coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

Stopwatch = Callable[[], float]
"""Returns seconds since some moment; of every process a clock of its own, which is never set."""


class HandlingTime:
    """Sums the time in which the steps of a coroutine hold the event loop, and that of its work in other threads.

    What it waits for takes no time. Work that it hands to other tasks is not counted.
    """

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        self._parts: list[float] = []

    @property
    def seconds(self) -> float:
        return sum(self._parts)

    @coroutine
    def measure(self, steps: Coroutine[Any, Any, _T]) -> Generator[Any, Any, _T]:
        """Await the coroutine, and count each of its steps."""
        token = CURRENT_HANDLING.set(self)
        resume, sent = steps.send, None
        try:
            while True:
                began = self._stopwatch()
                try:
                    awaited = resume(sent)
                except StopIteration as end:
                    result: _T = end.value
                    return result
                finally:
                    self._count(began)
                try:
                    resume, sent = steps.send, (yield awaited)
                except BaseException as error:
                    resume, sent = steps.throw, error
        finally:
            CURRENT_HANDLING.reset(token)

    def in_thread(self, work: Callable[[], _T]) -> Callable[[], _T]:
        """Wrap work, so that its time is counted wherever it runs."""

        def timed() -> _T:
            began = self._stopwatch()
            try:
                return work()
            finally:
                self._count(began)

        return timed

    def _count(self, began: float) -> None:
        # Appended, as several threads may add theirs at the same time.
        self._parts.append(self._stopwatch() - began)


CURRENT_HANDLING: Final[ContextVar[HandlingTime | None]] = ContextVar("CURRENT_HANDLING", default=None)
"""Where the time of the request is counted that this context handles; None: nobody asks for it."""
