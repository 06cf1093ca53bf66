"""What is read of one replica's log: its bounds, batches from an offset on, and whether they are sound.

Consumers, followers, copies and the scrub need no more of it; `partition_log` is what changes it.
Source: Kafka LocalLog.read.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from broker_agent.log.config import LogConfig
from broker_agent.log.log_directory import LogDirectory
from broker_agent.log.log_flusher import LogFlusher
from broker_agent.log.record_batch import BatchHeader
from broker_agent.log.recovery import LoadedLog
from broker_agent.log.segment import Segment
from broker_agent.log.segments import LogDependencies
from broker_agent.log.verification import Extent, Pace, verify_segments
from broker_agent.log_damage import LogDamage
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode, LogAppendError, StorageError
from cluster.model.partition import TopicPartition

T = TypeVar("T")


class ReadableLog:
    """One replica's log in one directory, as its readers see it.

    Every operation raises StorageError once the directory has failed. Offsets: log_start_offset <= high_watermark <=
    log_end_offset (exclusive end).
    """

    def __init__(
        self,
        dependencies: LogDependencies,
        log_directory: LogDirectory,
        path: str,
        *,
        topic_partition: TopicPartition,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.topic_partition = topic_partition
        self._config, self.path = config, path
        self.segments = loaded.segments
        self._dependencies, self._log_directory = dependencies, log_directory
        self._log_start, self._end = loaded.log_start_offset, loaded.end_offset
        self._high_watermark = loaded.log_start_offset
        self._flusher = LogFlusher(dependencies, path, loaded)
        self._is_closed = False
        self.on_change: Callable[[], None] = _ignore
        """Called after each change of an offset or of the topic id, within the step that makes it."""

    @property
    def size(self) -> int:
        """The bytes of all batches."""
        return self.segments.size

    @property
    def directory(self) -> str:
        """The log directory (the parent of the partition's directory)."""
        return self._log_directory.path

    @property
    def log_start_offset(self) -> Offset:
        return self._log_start

    @property
    def log_end_offset(self) -> Offset:
        return self._end

    @property
    def high_watermark(self) -> Offset:
        return self._high_watermark

    @property
    def stored_end_offset(self) -> Offset:
        """The end of the last batch. After a truncation inside a batch the log ends later, in a gap, which the next
        start does not know of.
        """
        return min(self._end, self.segments.active.next_offset)

    @property
    def high_watermark_to_checkpoint(self) -> Offset:
        """The high watermark as far as there are batches: a start that finds fewer takes them for lost."""
        return min(self._high_watermark, self.stored_end_offset)

    @property
    def recovery_point_to_checkpoint(self) -> Offset:
        """The recovery point as far as there are batches."""
        return min(self.recovery_point, self.stored_end_offset)

    @property
    def cuts(self) -> int:
        """The number of truncations so far."""
        return self._flusher.cuts

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def recovery_point(self) -> Offset:
        """The first offset not known to be flushed."""
        return self._flusher.recovery_point

    def usable(self) -> LogDirectory:
        """The log directory, inside of which an OSError is one of the directory. Raises StorageError once closed."""
        if self._is_closed:
            raise StorageError(self.directory, f"the log of {self.topic_partition} is closed")
        return self._log_directory

    # Reading

    def read(self, start: Offset, max_bytes: int, upper_bound: Offset, *, at_least_one: bool) -> bytes:
        """The whole batches from the one containing `start`, ending at or before `upper_bound` (R10.10).

        `at_least_one`: the first batch is returned even when it alone exceeds `max_bytes`.
        Raises LogAppendError(OFFSET_OUT_OF_RANGE) for start < log start or > LEO.
        """
        with self.usable():
            bound = min(upper_bound, self._end)
            if self._checked_start(start) >= bound:
                return b""
            return self.segments.read(start, max_bytes, bound, at_least_one=at_least_one)

    def bytes_between(self, start: Offset, end: Offset) -> int | None:
        """The bytes from the batch containing `start` up to `end` when in one segment, else None (R6.15)."""
        with self.usable():
            return self.segments.bytes_between(start, end)

    async def read_aside(self, start: Offset, max_bytes: int) -> bytes | None:
        """Read as `read` does, up to the log end and at least one batch, but in a worker thread; None if the log was
        truncated or closed meanwhile.

        Raises LogAppendError(OFFSET_OUT_OF_RANGE) and StorageError.
        """
        directory = self.usable()
        with directory:
            found = self.segments.place(start) if self._checked_start(start) < self._end else None
            if found is None:
                return b""
            cuts, bound = self._flusher.cuts, self._end
            segment, placed = found
            size = max(max_bytes, placed.header.size)

            def is_current() -> bool:
                is_in_use = not self._is_closed and directory.failure is None and segment in self.segments
                return is_in_use and self._flusher.cuts == cuts and start >= self._log_start

            try:
                records = await self.run_aside(lambda: segment.read_at(placed.position, size, bound))
            except OSError:
                if is_current():
                    raise
                return None  # Its files may be gone.
            return records if is_current() else None

    async def run_aside(self, work: Callable[[], T]) -> T:
        """Read files in a worker thread. Raises OSError; what is read may be gone by then."""
        return await self._dependencies.disk.run(work)

    def _checked_start(self, start: Offset) -> Offset:
        if not self._log_start <= start <= self._end:
            why = f"offset {start} is outside [{self._log_start}, {self._end}]"
            raise LogAppendError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
        return start

    def batches(self) -> Iterator[BatchHeader]:
        """The headers of all batches that end at or after the log start; for inspection, not for serving."""
        return self.segments.headers(self._log_start)

    async def verify(self, pace: Pace) -> LogDamage | None:
        """Check every batch of sealed segments, and the flushed ones of the active segment, in a worker thread; `pace`
        is awaited with the size of each piece (R9.30).

        The first damage, None if there is none, or if the log was truncated meanwhile. Raises StorageError.
        """
        cuts, extent = self._flusher.cuts, Extent(self._log_start, self.recovery_point)

        def is_current(segment: Segment) -> bool:
            return not self._is_closed and self._flusher.cuts == cuts and segment in self.segments

        with self.usable():
            return await verify_segments(self._dependencies.disk, [*self.segments], extent, is_current, pace)


def _ignore() -> None:
    """Nobody has to know."""
