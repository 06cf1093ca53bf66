"""The Workers on threads.

Not an executor of the library: that wakes the event loop for each result. Here what has ended when the loop comes round
is taken in one go, which halves the cost of short work, and lets what waited for it continue together.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[], Any]
    result: asyncio.Future[Any]


class _Ended(NamedTuple):
    result: asyncio.Future[Any]
    value: Any
    error: BaseException | None


class ThreadWorkers:
    """At most `threads` pieces of work run at a time; others wait in order. Belongs to one event loop."""

    def __init__(self, threads: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ended: deque[_Ended] = deque()
        self._is_loop_called = False
        self._threads = [threading.Thread(target=self._work, name=f"worker-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        result: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, result))
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            # The thread goes on; what the caller holds for it must be held until it is done.
            await asyncio.wait([result])
            raise

    def close(self) -> None:
        """Wait for the work that was given and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                ended = _Ended(job.result, job.work(), None)
            except BaseException as error:  # It belongs to who asked for the work.
                ended = _Ended(job.result, None, error)
            del job  # Not until the next one comes: it holds what it worked on.
            self._ended.append(ended)
            del ended
            # Appended before this is read, and cleared before the results are taken: none is left behind.
            if not self._is_loop_called:
                self._is_loop_called = True
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_loop_called = False
        while self._ended:
            result, value, error = self._ended.popleft()
            if error is None:
                result.set_result(value)
            else:
                result.set_exception(error)
                result.exception()  # Who gave up does not ask for it.
