"""The Workers on a pool of threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class ThreadWorkers:
    """At most `threads` pieces of work run at a time; others wait in order."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="worker")

    async def run(self, work: Callable[[], T]) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread goes on; what the caller holds for it must be held until it is done.
            await asyncio.wait([running])
            raise

    def close(self) -> None:
        """Wait for running work and end the threads."""
        self._executor.shutdown(wait=True)
