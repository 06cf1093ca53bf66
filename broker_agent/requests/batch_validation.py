"""Validates small batches of clients at once, others off the event loop and within a budget of memory.

What reads the records of stored batches shares the workers and the budget.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar

from broker_agent.log.config import LogConfig
from broker_agent.log.record_batch import HEADER_SIZE, parse_header
from broker_agent.ports import Workers
from broker_agent.requests.client_batches import check_client_batch
from cluster.aio.clock import WallClock
from cluster.aio.handling_time import CURRENT_HANDLING
from cluster.config.settings import Settings
from cluster.model.compression import CompressionCodec, find_codec, largest_size
from cluster.model.errors import LogAppendError

AT_ONCE_MAX: Final = 64 * 1024
"""Batches of more bytes, and compressed ones, are validated off the event loop."""
_T = TypeVar("_T")


class _Waiting(NamedTuple):
    size: int
    granted: asyncio.Future[None]


class ByteBudget:
    """At most `capacity` bytes are held at a time, granted in the order of arrival, so that nobody starves."""

    def __init__(self, capacity: int) -> None:
        self._capacity = self._free = capacity
        self._waiting: deque[_Waiting] = deque()

    @property
    def free(self) -> int:
        return self._free

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, the whole budget if that is less, for the block; waits until they are free."""
        size = min(size, self._capacity)
        if self._waiting or size > self._free:
            await self._wait(size)
        else:
            self._free -= size
        try:
            yield
        finally:
            self._give_back(size)

    async def _wait(self, size: int) -> None:
        waiting = _Waiting(size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting.granted
        except asyncio.CancelledError:
            if not waiting.granted.cancelled():
                self._give_back(size)  # It was granted in the same turn of the event loop.
            self._grant()
            raise

    def _give_back(self, size: int) -> None:
        self._free += size
        self._grant()

    def _grant(self) -> None:
        while self._waiting and (self._waiting[0].granted.cancelled() or self._waiting[0].size <= self._free):
            size, granted = self._waiting.popleft()
            if not granted.cancelled():
                self._free -= size
                granted.set_result(None)


class BatchValidation:
    """Validates batches of clients."""

    def __init__(self, workers: Workers, clock: WallClock, settings: Settings) -> None:
        self._workers, self._clock = workers, clock
        self.decompressed_max = settings.klamm_max_decompressed_batch_bytes
        self._budget = ByteBudget(max(settings.klamm_decompression_memory_bytes, self.decompressed_max))

    @staticmethod
    def is_quick(records: bytes) -> bool:
        """Whether validating takes so little that it may be done on the event loop."""
        if len(records) > AT_ONCE_MAX:
            return False
        return len(records) < HEADER_SIZE or find_codec(parse_header(records).attributes) in (
            CompressionCodec.NONE,
            None,
        )

    def validate(self, records: bytes, config: LogConfig) -> bytes:
        """Validate on the event loop; returns the batch to append. Raises LogAppendError."""
        return check_client_batch(records, config, self._clock.now_ms(), self.decompressed_max)

    async def validate_off_loop(self, records: bytes, config: LogConfig) -> bytes | LogAppendError:
        """Validate in a worker; returns the batch to append, or why it is refused."""
        return await self.run_off_loop(records, lambda: self._find_outcome(records, config))

    async def run_off_loop(self, records: bytes, function: Callable[[], _T]) -> _T:
        """The result of a function that decompresses this batch, in a worker."""
        handling = CURRENT_HANDLING.get()
        if handling is not None:
            function = handling.in_thread(function)
        memory = self._memory_for(records)
        if not memory:
            return await self._workers.run(function)
        async with self._budget.hold(memory):
            return await self._workers.run(function)

    def _find_outcome(self, records: bytes, config: LogConfig) -> bytes | LogAppendError:
        try:
            return self.validate(records, config)
        except LogAppendError as error:
            # Not the one that was raised: as long as that lives, its traceback holds all that was decompressed.
            return LogAppendError(error.code, error.why, record_errors=error.record_errors, meter=error.meter)

    def _memory_for(self, records: bytes) -> int:
        codec = find_codec(parse_header(records).attributes) if len(records) >= HEADER_SIZE else None
        if codec in (CompressionCodec.NONE, None):
            return 0
        return largest_size(codec, len(records) - HEADER_SIZE, self.decompressed_max)
