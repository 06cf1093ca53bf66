"""Runs work that may block for long in threads of its own: a few for each key, such as a host that is asked.

Work of one key never waits for that of another, as it would in a pool that they share. The threads are daemons: a
process that ends waits for none of them.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, Final, TypeVar

_T = TypeVar("_T")


class BoundedThreads:
    """Starts a thread when there is work for it, and ends it when there is no more. Thread-safe."""

    def __init__(self, name: str, *, per_key: int) -> None:
        """`name`: begins the names of its threads. `per_key`: how many of them a key has at most."""
        self._name, self._per_key = name, per_key
        self._lock: Final = Lock()
        self._waiting: defaultdict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = defaultdict(deque)
        self._running = Counter[str]()

    async def run(self, key: str, work: Callable[[], _T]) -> _T:
        """Run it, and return or raise what it does. If the caller is cancelled before it began, it never begins."""
        return await asyncio.wrap_future(self.submit(key, work))

    def submit(self, key: str, work: Callable[[], _T]) -> Future[_T]:
        """Run it as soon as a thread of the key is free. Raises RuntimeError if the system gives no thread for it."""
        future: Future[_T] = Future()
        with self._lock:
            self._waiting[key].append((future, work))
            if self._running[key] < self._per_key:
                self._running[key] += 1
                try:
                    Thread(target=self._work, args=(key,), name=f"{self._name} {key}", daemon=True).start()
                except RuntimeError:
                    self._waiting[key].pop()
                    self._end(key)
                    raise
        return future

    def _work(self, key: str) -> None:
        while (next_one := self._next(key)) is not None:
            future, work = next_one
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:  # Whoever waits for it decides.
                future.set_exception(error)
            else:
                future.set_result(result)

    def _next(self, key: str) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Return what is to be done next; None: nothing, and the thread ends."""
        with self._lock:
            if self._waiting[key]:
                return self._waiting[key].popleft()
            self._end(key)
            return None

    def _end(self, key: str) -> None:
        """Count a thread of the key no more. Call it with the lock."""
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key], self._waiting[key]
