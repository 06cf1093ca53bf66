"""One cleaning of one log, piece by piece in worker threads.

First all headers are read, for the transactions; then the dirty records, for the newest offset of each key; then every
segment up to there is written again without what is obsolete, and put in the place of the old one. Source: Kafka
Cleaner.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Final

from msgspec import Struct

from broker_agent.compaction.batch_cleaning import CleaningRound, clean_batch, records_of
from broker_agent.compaction.cleaned_output import CleanedOutput, RetainedBatch, write
from broker_agent.compaction.offset_map import OffsetMap
from broker_agent.compaction.stored_records import UncleanableBatchError
from broker_agent.decisions.cleaned_transactions import CleanedTransactions
from broker_agent.decisions.compaction import LogDirt, SegmentExtent, group_segments
from broker_agent.log.batch_check import BatchWalk, CheckedBatch
from broker_agent.log.disk import Disk
from broker_agent.log.log_flusher import run_all
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import BatchHeader
from broker_agent.log.segment import CLEANED_SUFFIX, PlacedBatch, Segment
from cluster.model.broker import Offset

_HEADERS_AT_ONCE: Final = 2000
_READ_FOR_HEADER: Final = 8192
_ABORT: Final = b"\0\0"
_COMMIT: Final = b"\0\1"
"""Types in the keys of markers, behind the version."""


class CleaningTools(Struct, frozen=True):
    """What a cleaner cleans with. `pace` is awaited with the bytes that were read or written."""

    disk: Disk
    newest: OffsetMap
    pace: Callable[[int], Awaitable[None]]
    piece_bytes: int


class CleaningStats(Struct):
    """What a cleaning has read and written."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0


class CleaningAbortedError(Exception):
    """The log was truncated, deleted or moved, or lost segments, while it was cleaned; nothing is wrong with it."""


def extent_of(segment: Segment) -> SegmentExtent:
    """Gather what the choice of segments needs of one."""
    return SegmentExtent(
        segment.base_offset,
        segment.size,
        segment.first_timestamp,
        segment.largest_timestamp,
        segment.index_size,
        segment.time_index_size,
    )


class LogCleaning:
    """One cleaning of the offsets below `dirt.first_uncleanable`; `run` is called once. Times in ms."""

    def __init__(
        self, log: PartitionLog, dirt: LogDirt, tools: CleaningTools, now_ms: int, is_permitted: Callable[[], bool]
    ) -> None:
        """`is_permitted`: whether the cleaning may continue; asked before each change."""
        self._is_permitted = is_permitted
        self.stats = CleaningStats()
        self._log, self._dirt, self._tools, self._now_ms = log, dirt, tools, now_ms
        self._cuts = log.cuts
        self._reading: Sequence[Segment] = ()
        bases = [segment.base_offset for segment in log.segments]
        self._ends = dict(pairwise(bases))  # Base offset -> that of the next segment.

    async def run(self) -> Offset:
        """Clean the log; returns where the next cleaning begins.

        Raises CleaningAbortedError; UncleanableBatchError if a batch cannot be read; StorageError.
        """
        tools, log = self._tools, self._log
        tools.newest.clear()
        segments = [segment for segment in log.segments if segment.base_offset < self._dirt.first_uncleanable]
        try:
            await tools.disk.run(partial(_remove_leftovers, tools.disk, log.path))
            transactions = await self._read_transactions()
            await self._map_keys(segments, transactions)
            end = Offset(tools.newest.latest + 1)
            cleaning = CleaningRound(
                tools.newest, transactions, log.producers.last_offsets(), self._now_ms, log.config.delete_retention_ms
            )
            for group in self._groups([segment for segment in segments if segment.base_offset < end]):
                await self._clean_group(group, cleaning)
            self._check()
        except UncleanableBatchError:
            # Or it was truncated while it was read.
            self._check()
            raise
        except OSError:
            self._check()
            with log.usable():
                raise
        return end

    def _check(self) -> None:
        """Raise CleaningAbortedError if the log is no longer to be cleaned, or files may be gone or shorter: it is
        closed, was truncated since, or has deleted what is being read.
        """
        log, reading = self._log, self._reading
        is_as_before = log.cuts == self._cuts and all(segment in log.segments for segment in reading)
        if log.is_closed or not self._is_permitted() or not is_as_before:
            raise CleaningAbortedError

    async def _work(self, work: Callable[[], int]) -> int:
        """Do one piece of work in a thread, and wait until the bytes it returns are within the limit."""
        taken = await self._tools.disk.run(work)
        await self._tools.pace(taken)
        self._check()
        return taken

    # Transactions

    async def _read_transactions(self) -> CleanedTransactions:
        """Read the transactions that have records in what is cleaned, all of which have ended; their markers may come
        later, also behind the beginning of another one that is still open.
        """
        transactions = CleanedTransactions()
        for segment in [*self._log.segments]:
            is_beyond = segment.base_offset >= self._dirt.first_uncleanable
            if segment.base_offset >= self._log.high_watermark or (is_beyond and transactions.are_all_decided):
                break
            self._reading, batches = (segment,), segment.batches()
            while await self._work(partial(_add_transactions, transactions, segment, batches)):
                pass
        return transactions

    # Keys

    async def _map_keys(self, segments: Sequence[Segment], transactions: CleanedTransactions) -> None:
        newest, first_dirty = self._tools.newest, self._dirt.first_dirty
        for segment in segments:
            end = self._ends[segment.base_offset]
            if end <= first_dirty:
                continue
            self._reading, walk = (segment,), segment.walk(segment.size, end)
            batches, is_full = iter(walk), False
            while not is_full:
                taken, is_full = await self._map_piece(batches, transactions)
                if not taken:
                    break
            self._refuse_fault(segment, walk)
            if is_full:
                return
            newest.latest = Offset(end - 1)

    async def _map_piece(self, batches: Iterator[CheckedBatch], transactions: CleanedTransactions) -> tuple[int, bool]:
        """Map the keys of the next batches; returns the bytes, 0 at the end, and whether the map is full."""
        newest, first_dirty, piece_bytes = self._tools.newest, self._dirt.first_dirty, self._tools.piece_bytes
        is_full = False

        def map_piece() -> int:
            nonlocal is_full
            taken = 0
            for _, header, batch in batches:
                taken += header.size
                if header.last_offset >= first_dirty:
                    if not (header.is_control or _was_aborted(header, transactions)):
                        is_full = not _put_all(newest, header, batch, first_dirty)
                    if is_full:
                        break
                    newest.latest = Offset(header.last_offset)
                if taken >= piece_bytes:
                    break
            return taken

        return await self._work(map_piece), is_full

    def _refuse_fault(self, segment: Segment, walk: BatchWalk) -> None:
        """Raise UncleanableBatchError where a batch is damaged."""
        if walk.fault is not None:
            self._check()
            raise UncleanableBatchError(f"{segment.path} at byte {walk.fault.position}: {walk.fault.why}")

    # Segments

    def _groups(self, segments: Sequence[Segment]) -> list[list[Segment]]:
        by_base = {segment.base_offset: segment for segment in segments}
        config, extents = self._log.config, [extent_of(segment) for segment in segments]
        end = self._ends[segments[-1].base_offset]
        groups = group_segments(
            extents, end, segment_bytes=config.segment_bytes, index_bytes=config.segment_index_bytes
        )
        return [[by_base[extent.base_offset] for extent in group] for group in groups]

    async def _clean_group(self, group: Sequence[Segment], cleaning: CleaningRound) -> None:
        """Replace a group of segments by what stays of them."""
        filled = [segment for segment in group if segment.size > 0]
        if not filled:
            return
        self._reading = group
        self._check()
        modified_ms = group[-1].modified_ms
        output = CleanedOutput(self._log, group[0].base_offset)
        try:
            for segment in filled:
                await self._clean_segment(segment, cleaning, output, ends_group=segment is filled[-1])
            await self._tools.disk.run(partial(run_all, output.complete(modified_ms)))
            self._check()
        except BaseException:
            self._give_up(output)
            raise
        self._reading = ()
        self._log.replace_segments(group, output.segments)
        # From here on the names are those of the cleaned segments; the checkpoint of the cleaner must not be ahead.
        await self._tools.disk.run(partial(self._tools.disk.sync_directory, self._log.path))

    def _give_up(self, output: CleanedOutput) -> None:
        """Leave nothing of an unfinished group; what cannot be removed now is removed before the next cleaning."""
        if self._log.is_closed:
            output.close()  # By now its path may be that of another log.
            return
        with suppress(OSError):
            output.discard()

    async def _clean_segment(
        self, segment: Segment, cleaning: CleaningRound, output: CleanedOutput, *, ends_group: bool
    ) -> None:
        walk = segment.walk(segment.size, self._ends[segment.base_offset])
        batches, last_size = iter(walk), segment.size if ends_group else -1
        while True:
            retained: list[RetainedBatch] = []
            taken = await self._work(partial(self._clean_piece, batches, cleaning, retained, last_size))
            if not taken:
                break
            if retained:
                self.stats.bytes_written += await self._work(partial(write, output.room_for(retained)))
        self._refuse_fault(segment, walk)

    def _clean_piece(
        self, batches: Iterator[CheckedBatch], cleaning: CleaningRound, retained: list[RetainedBatch], last_end: int
    ) -> int:
        """Clean the next batches; returns their bytes, 0 at the end. `last_end`: where a batch ends that must stay."""
        taken, stats = 0, self.stats
        for position, header, batch in batches:
            cleaned = clean_batch(header, batch, cleaning, must_stay=position + header.size == last_end)
            taken += header.size
            stats.records_read += header.record_count
            stats.records_written += cleaned.record_count
            stats.records_without_key += cleaned.without_key
            if cleaned.batch is not None:
                retained.append(RetainedBatch.of(cleaned.batch))
            if taken >= self._tools.piece_bytes:
                break
        stats.bytes_read += taken
        return taken


def _remove_leftovers(disk: Disk, path: str) -> None:
    """Remove what an earlier cleaning may have left: the next start must not take it for a part of this one."""
    for name in disk.list_directory(path):
        if name.endswith(CLEANED_SUFFIX):
            disk.remove_file(f"{path}/{name}")


def _add_transactions(transactions: CleanedTransactions, segment: Segment, batches: Iterator[PlacedBatch]) -> int:
    """Add what the next headers say of transactions; returns the bytes read for them, 0 at the end."""
    taken = 0
    for number, placed in enumerate(batches, 1):
        header = placed.header
        taken += min(header.size, _READ_FOR_HEADER)
        if header.is_control:
            marker = _marker_type(segment, placed)
            if marker is not None:
                offset = Offset(header.base_offset)
                transactions.add_marker(header.producer_id, offset, is_abort=marker == _ABORT)
        elif header.is_transactional:
            transactions.add_batch(header.producer_id, Offset(header.base_offset))
        if number >= _HEADERS_AT_ONCE:
            break
    return taken


def _marker_type(segment: Segment, placed: PlacedBatch) -> bytes | None:
    """Read the type of a transaction marker; None for any other control batch, and for one that was emptied."""
    if placed.header.record_count == 0:
        return None
    first = next(records_of(placed.header, memoryview(segment.batch_at(placed))))
    key = first.key or b""
    return key[2:4] if key[2:4] in (_ABORT, _COMMIT) else None


def _was_aborted(header: BatchHeader, transactions: CleanedTransactions) -> bool:
    return header.is_transactional and transactions.was_aborted(header.producer_id, Offset(header.base_offset))


def _put_all(newest: OffsetMap, header: BatchHeader, batch: memoryview, first_dirty: Offset) -> bool:
    """Map the keys of one batch; False once the map is full."""
    base = header.base_offset
    return all(
        newest.put(record.key, Offset(base + record.offset_delta))
        for record in records_of(header, batch)
        if record.key is not None and base + record.offset_delta >= first_dirty
    )
