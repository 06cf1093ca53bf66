"""Finds batches by their timestamps without holding the event loop.

The time index leads to within a few batches of the one that is sought, unless that is gone: emptied by the cleaner, or
below the log start. Then a whole segment may have to be read. The first batches are read at once, all others in a
worker thread; whatever changed the log meanwhile has the search begin again. Source: Kafka UnifiedLog
.fetchOffsetByTimestamp; KIP-734.
"""

from collections.abc import Callable, Iterator
from typing import Final

from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import NO_TIMESTAMP, BatchHeader
from broker_agent.log.segment import PlacedBatch, Segment
from cluster.model.broker import Offset

AT_ONCE_MAX: Final = 200
"""Batches that a search passes on the event loop. Between two entries of an index are fewer than 100, unless
`index.interval.bytes` is raised.
"""


async def first_batch_at(log: PartitionLog, timestamp: int, start: Offset) -> bytes | None:
    """The first batch with a timestamp at or after the given one that ends at or after `start` and the log start; None
    if there is none.

    Its records with such a timestamp may be below these. Raises StorageError.
    """
    while True:
        search = _Search(log)
        try:
            header = await search.first_at(timestamp, max(start, log.log_start_offset))
        except _LogChangedError:
            continue
        if header is None:
            return None
        if header.last_offset >= log.log_start_offset:
            return _read(log, header)


async def newest_batches(log: PartitionLog) -> list[bytes]:
    """The batches of which one has the first record with the largest timestamp, in offset order; none without
    timestamps. Raises StorageError.

    There are two if the log start is in the first: the record with its largest timestamp may be deleted.
    """
    while True:
        try:
            return await _newest_batches(log)
        except _LogChangedError:
            continue


async def _newest_batches(log: PartitionLog) -> list[bytes]:
    batches: list[bytes] = []
    start, search = log.log_start_offset, _Search(log)
    while True:
        header = await search.newest(start)
        if header is None or header.max_timestamp == NO_TIMESTAMP:
            return batches
        batches.append(_read(log, header))
        if header.last_offset < log.log_start_offset:
            raise _LogChangedError
        if header.base_offset >= start:
            return batches
        start = Offset(header.last_offset + 1)


def _read(log: PartitionLog, header: BatchHeader) -> bytes:
    with log.usable():
        return log.segments.read(Offset(header.last_offset), 0, log.log_end_offset, at_least_one=True)


class _LogChangedError(Exception):
    """Raised when the log was truncated, cleaned or shortened during a search: what was found may be gone."""


class _Search:
    """One search in a log."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._left = AT_ONCE_MAX
        """The number of batches that it may still pass on the event loop."""

    async def first_at(self, timestamp: int, start: Offset) -> BatchHeader | None:
        """The first batch with a timestamp at or after the given one that ends at or after `start`, or None."""
        for segment in self._log.segments.since(start):
            header = await self._first_in(segment, timestamp, start)
            if header is not None:
                return header
        return None

    async def newest(self, start: Offset) -> BatchHeader | None:
        """The first batch with the largest timestamp among those that end at or after `start`; None without any."""
        newest: BatchHeader | None = None
        for segment in sorted(self._log.segments.since(start), key=lambda segment: -segment.largest_timestamp):
            if newest is not None and newest.max_timestamp >= segment.largest_timestamp:
                break
            found = await self._newest_in(segment, start)
            if found is not None and (newest is None or found.max_timestamp > newest.max_timestamp):
                newest = found
        return newest

    async def _first_in(self, segment: Segment, timestamp: int, start: Offset) -> BatchHeader | None:
        if segment.largest_timestamp < timestamp:
            return None
        with self._log.usable():
            batches = segment.batches_at_time(timestamp, start)
        seeker = _FirstAtTime(timestamp, start)
        await self._seek(segment, batches, seeker.sees)
        return seeker.found

    async def _newest_in(self, segment: Segment, start: Offset) -> BatchHeader | None:
        if segment.largest_timestamp == NO_TIMESTAMP:
            return None
        newest = await self._first_in(segment, segment.largest_timestamp, start)
        if newest is not None:
            return newest
        # It is in a batch below `start`, or in the index only.
        with self._log.usable():
            first = segment.find(start)
        if first is None:
            return None
        seeker = _Newest()
        await self._seek(segment, segment.batches(first.position), seeker.sees)
        return seeker.found

    async def _seek(
        self, segment: Segment, batches: Iterator[PlacedBatch], sees: Callable[[BatchHeader], bool]
    ) -> None:
        """Pass batches until one ends the search, from some point on in a worker."""
        log, directory = self._log, self._log.usable()
        with directory:
            for _, header in batches:
                self._left -= 1
                if sees(header):
                    return
                if self._left <= 0:
                    break
            else:
                return
            cuts = log.cuts

            def is_current() -> bool:
                is_in_use = not log.is_closed and directory.failure is None and segment in log.segments
                return is_in_use and log.cuts == cuts

            try:
                await log.run_aside(lambda: any(sees(header) for _, header in batches))
            except OSError:
                if is_current():
                    raise
                raise _LogChangedError from None  # Its files may be gone.
        # A closed log, or one whose directory failed, says so when the search begins again.
        if not is_current():
            raise _LogChangedError


class _FirstAtTime:
    """Looks for the first batch with a timestamp at or after the given one that ends at or after `start`."""

    def __init__(self, timestamp: int, start: Offset) -> None:
        self._timestamp, self._start = timestamp, start
        self.found: BatchHeader | None = None

    def sees(self, header: BatchHeader) -> bool:
        """Look at the next batch; returns whether it is the one."""
        # A batch without records was left by the cleaner; its timestamp is that of a record that is gone.
        if header.max_timestamp >= self._timestamp and header.last_offset >= self._start and header.record_count > 0:
            self.found = header
        return self.found is not None


class _Newest:
    """Looks for the first batch with the largest timestamp."""

    def __init__(self) -> None:
        self.found: BatchHeader | None = None

    def sees(self, header: BatchHeader) -> bool:
        """Look at the next batch; there may always be a newer one."""
        if header.record_count > 0 and (self.found is None or header.max_timestamp > self.found.max_timestamp):
            self.found = header
        return False
