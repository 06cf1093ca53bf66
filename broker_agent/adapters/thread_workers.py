"""The Workers on threads.

Not an executor of the library: that wakes the event loop for each result. Here what has ended when the loop comes round
is taken in one go, which halves the cost of short work, and lets what waited for it continue together.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class _Job:
    """One piece of work. `result` is cancelled if the caller gives up; then `on_end` is set, if the work has begun."""

    __slots__ = ("error", "has_ended", "on_end", "result", "value", "work")

    def __init__(self, work: Callable[[], Any], result: asyncio.Future[Any]) -> None:
        self.work, self.result = work, result
        self.value: Any = None
        self.error: BaseException | None = None
        self.has_ended = False
        self.on_end: asyncio.Future[None] | None = None

    def do(self) -> None:
        """Work, in a thread."""
        try:
            self.value = self.work()
        except BaseException as error:  # It belongs to who asked for the work.
            self.error = error

    def hand_over(self) -> None:
        """Give the result to who waits for it, on the event loop."""
        self.has_ended = True
        if self.result.cancelled():
            if self.on_end is not None:
                self.on_end.set_result(None)
        elif self.error is None:
            self.result.set_result(self.value)
        else:
            self.result.set_exception(self.error)


class ThreadWorkers:
    """At most `threads` pieces of work run at a time; others wait in order. Belongs to one event loop."""

    def __init__(self, threads: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ended: deque[_Job] = deque()
        self._is_loop_called = False
        self._threads = [threading.Thread(target=self._work, name=f"worker-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        job = _Job(work, self._loop.create_future())
        self._jobs.put(job)
        try:
            value: T = await job.result
            return value
        except asyncio.CancelledError:
            # The thread continues; what the caller holds for it must be held until it is done.
            if not job.has_ended:
                job.on_end = self._loop.create_future()
                await asyncio.wait([job.on_end])
            raise
        finally:
            # An error's traceback has this frame: were the error reachable from it, only the collector would free it.
            del job

    def close(self) -> None:
        """Wait for the work that was given and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.do()
            self._ended.append(job)
            del job  # Not until the next one comes: it holds what it worked on.
            # Appended before this is read, and cleared before the results are taken: none is left behind.
            if not self._is_loop_called:
                self._is_loop_called = True
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_loop_called = False
        while self._ended:
            self._ended.popleft().hand_over()
