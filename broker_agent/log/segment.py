"""One segment of a log: a file of batches named by its base offset, with its sparse indexes.

It handles batches and positions, not leaders, epochs or watermarks. Source: Kafka LogSegment, OffsetIndex, TimeIndex.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Final, NamedTuple

import structlog

from broker_agent.log.batch_check import BatchFault, BatchWalk, Expected, expected_in_segment, find_header_fault
from broker_agent.log.config import LogConfig
from broker_agent.log.directory_names import offset_name
from broker_agent.log.disk import Disk
from broker_agent.log.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, OffsetIndex, TimeIndex
from broker_agent.log.record_batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, parse_header, whole_batches
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
UNFINISHED_SUFFIX: Final = ".tmp"

_READ_AT_ONCE: Final = 8 << 10
_log = structlog.stdlib.get_logger()


class PlacedBatch(NamedTuple):
    """A batch and its file position in the segment (or, before an append, in the set to be appended)."""

    position: int
    header: BatchHeader


def segment_stem(directory: str, base_offset: Offset) -> str:
    """The path of a segment's files without their suffix."""
    return f"{directory}/{offset_name(base_offset)}"


class Segment:
    """`largest_timestamp` is -1 while no batch has one; `next_offset` is the base offset while it is empty."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        config: LogConfig,
        *,
        created_ms: int,
        jitter_ms: int,
        state: str = "",
    ) -> None:
        """`state`: the suffix of its files while the segment is not in use yet."""
        self._disk = disk
        self._stem, self._state = segment_stem(directory, base_offset), state
        self._config = config
        self._file = disk.open_file(self.path)
        self._index, self._times = OffsetIndex(), TimeIndex()
        self._entries_on_disk, self._times_on_disk = 0, 0
        self._last_entry_position = 0
        self._largest = (NO_TIMESTAMP, 0)  # timestamp, relative last offset of its batch
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.last_epoch = NO_LEADER_EPOCH
        """Leader epoch of the last batch; -1 without one."""
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.first_timestamp = NO_TIMESTAMP
        """Largest timestamp of the first batch; the segment's age is counted from it."""
        self.is_dirty = False
        """Whether the file has data for which no flusher was created yet."""
        self._is_deleted = False
        self._newest: PlacedBatch | None = None
        """The last batch, if it was appended by this process and the segment is not full: it is asked for most often,
        and the index leads to some batches before it.
        """

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def largest_timestamp(self) -> int:
        return self._largest[0]

    @property
    def modified_ms(self) -> int:
        return self._disk.modified_ms(self.path)

    @property
    def index_size(self) -> int:
        """The bytes of the offset index."""
        return len(self._index) * OFFSET_ENTRY_SIZE

    @property
    def time_index_size(self) -> int:
        return len(self._times) * TIME_ENTRY_SIZE

    # Opening

    def create_indexes(self) -> None:
        """Create empty index files for a new segment."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._rewrite(suffix, b"")

    @property
    def path(self) -> str:
        return self._path_of(LOG_SUFFIX)

    def _path_of(self, suffix: str) -> str:
        return self._stem + suffix + self._state

    def moved_to(self, directory: str) -> None:
        """Take note that the directory of the segment was renamed."""
        self._stem = segment_stem(directory, self.base_offset)

    def load(self, next_base: Offset | None = None) -> BatchFault | None:
        """Load the indexes, rebuild them unless they match the file, and check the batches they do not cover.

        `next_base`: where the next segment begins. Returns why the file is not sound from some position on; None if it
        is, as far as it was checked.
        """
        index, times = self._read_indexes()
        self._index, self._times = index, times
        if not self._fits():
            self._warn_of_index("does not match the segment")
            self._forget_indexes()
        self._entries_on_disk, self._times_on_disk = len(self._index), len(self._times)
        return self._check_uncovered(next_base)

    def _read_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """The content of the index files; empty ones if either cannot be an index."""
        contents = [self._disk.read_file(self._path_of(suffix)) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        if contents == [None, None] or self.size <= self._config.index_interval_bytes:
            # The first segment of a log gets its files when it is closed; an offset index without entries has none.
            contents = [content or b"" for content in contents]
        index = None if contents[0] is None else OffsetIndex.decode(contents[0])
        times = None if contents[1] is None else TimeIndex.decode(contents[1])
        if index is not None and times is not None:
            return index, times
        self._warn_of_index("is missing" if None in contents else "is not an index")
        self.create_indexes()
        return OffsetIndex(), TimeIndex()

    def _warn_of_index(self, why: str) -> None:
        files = f"{self._stem}{INDEX_SUFFIX} or {TIME_INDEX_SUFFIX}"
        _log.warning("Index files are rebuilt from the segment", files=files, why=why)

    def _fits(self) -> bool:
        """Whether the last entries belong to the batches they name: a stale index must not misdirect reads."""
        relative_offset, position = self._index.last
        if len(self._index) and not self._has_batch(position, relative_offset):
            return False
        return not len(self._times) or self._has_timestamp(self._times.last)

    def _has_batch(self, position: int, relative_offset: int) -> bool:
        placed = next(self.batches(position), None)
        return placed is not None and placed.header.last_offset == self.base_offset + relative_offset

    def _has_timestamp(self, entry: tuple[int, int]) -> bool:
        """Whether the batch that an entry of the time index names has its timestamp."""
        timestamp, relative_offset = entry
        before = self._index.entry_before(relative_offset)
        offset = self.base_offset + relative_offset
        for _, header in self.batches(0 if before is None else before[1]):
            if header.last_offset >= offset:
                return header.base_offset <= offset and header.max_timestamp == timestamp
        return False

    def _check_uncovered(self, next_base: Offset | None = None) -> BatchFault | None:
        """Check from the last index entry to the end of the file and update everything derived from the batches."""
        expected = expected_in_segment(self.base_offset, next_base=next_base)
        first = next(self.batches(), None)
        is_sound = first is not None and find_header_fault(first.header, expected) is None
        self.first_timestamp = first.header.max_timestamp if first is not None and is_sound else NO_TIMESTAMP
        walk = self._walk_uncovered(self.size, expected)
        self._forget_uncovered()
        for position, header, _ in walk:
            self._record_batch(position, header)
        return walk.fault

    def _walk_uncovered(self, size: int, expected: Expected) -> BatchWalk:
        """Check the batches from the last index entry up to byte `size`; those before it are not checked."""
        start = self._index.last[1]
        indexed = next(self.batches(start), None) if len(self._index) else None
        if indexed is not None:
            expected = expected._replace(next_offset=max(self.base_offset, indexed.header.base_offset))
        return BatchWalk(self._file.read, size, expected, start=start)

    def _forget_uncovered(self) -> None:
        """Reset what is derived from the batches to what the indexes say."""
        self._largest, self._last_entry_position = self._times.last, self._index.last[1]
        self.next_offset, self.last_epoch = self.base_offset, NO_LEADER_EPOCH

    def recover(
        self, epoch_before: int, on_batch: Callable[[BatchHeader], None], next_base: Offset | None
    ) -> BatchWalk:
        """Check every batch up to the first that is not valid, where `cut` must follow. Rebuilds the indexes.

        `epoch_before`: the leader epoch of the batch before this segment, -1 if unknown; `next_base`: as of `load`.
        """
        self._forget_indexes()
        self.next_offset, self.last_epoch = self.base_offset, NO_LEADER_EPOCH
        self.is_dirty = True
        walk = BatchWalk(self._file.read, self.size, expected_in_segment(self.base_offset, epoch_before, next_base))
        for position, header, _ in walk:
            self._record_batch(position, header)
            on_batch(header)
        return walk

    def cut(self, position: int) -> None:
        """Truncate the file where `recover` has found it not to be valid any more."""
        self._file.truncate(position)

    def _forget_indexes(self) -> None:
        self._index, self._times, self._largest = OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, 0)
        self._entries_on_disk, self._times_on_disk, self._last_entry_position = 0, 0, 0
        self.create_indexes()

    def size_below(self, offset: Offset) -> int:
        """The bytes of the batches that end below `offset`."""
        found = self.find(offset)
        return self.size if found is None else found.position

    def walk(self, size: int, next_base: Offset | None) -> BatchWalk:
        """The check of the first `size` bytes, on any thread. `next_base`: as of `load`."""
        return BatchWalk(self._file.read, size, expected_in_segment(self.base_offset, next_base=next_base))

    def sound_headers(self) -> Iterator[BatchHeader]:
        """The headers of all batches up to the first that is not valid; every checksum is verified."""
        walk = BatchWalk(self._file.read, self.size, expected_in_segment(self.base_offset))
        return (header for _, header, _ in walk)

    # Reading

    def batch_at(self, placed: PlacedBatch) -> bytes:
        """The bytes of a batch."""
        return self._file.read(placed.position, placed.header.size)

    def last_before(self, offset: Offset) -> BatchHeader | None:
        """The last batch that ends before `offset`; None if there is none."""
        last = None
        for _, header in self._batches_near(offset - 1 - self.base_offset):
            if header.last_offset >= offset:
                break
            last = header
        return last

    def batches(self, position: int = 0) -> Iterator[PlacedBatch]:
        """The headers of all batches from a batch boundary on, as they are in the file."""
        buffer, start = b"", 0
        while True:
            if len(buffer) - (position - start) < HEADER_SIZE:
                buffer, start = self._file.read(position, _READ_AT_ONCE), position
                if len(buffer) < HEADER_SIZE:
                    return
            header = parse_header(buffer, position - start)
            if header.size < HEADER_SIZE or position + header.size > self.size:
                return
            yield PlacedBatch(position, header)
            position += header.size

    def _batches_near(self, relative_offset: int) -> Iterator[PlacedBatch]:
        """The batches from the last indexed one at or before the offset on; an index that misleads is rebuilt."""
        entry = self._index.entry_before(relative_offset)
        if entry is None:
            return self.batches()
        batches = self.batches(entry[1])
        first = next(batches, None)
        if first is not None and first.header.last_offset == self.base_offset + entry[0]:
            return chain((first,), batches)
        self._rebuild_indexes()
        entry = self._index.entry_before(relative_offset)
        return self.batches(0 if entry is None else entry[1])

    def _rebuild_indexes(self) -> None:
        self._warn_of_index("points to no batch")
        self._forget_indexes()
        self._check_uncovered()
        self.save_indexes()

    def find(self, offset: Offset) -> PlacedBatch | None:
        """The first batch that ends at or after `offset`, or None."""
        newest = self._newest
        if newest is not None and offset >= newest.header.base_offset:
            return newest if offset <= newest.header.last_offset else None
        near = self._batches_near(offset - self.base_offset)
        return next((batch for batch in near if batch.header.last_offset >= offset), None)

    def read(self, start: Offset, max_bytes: int, upper_bound: Offset, *, at_least_one: bool) -> bytes | None:
        """Complete batches from the one with `start` on, ending below `upper_bound`. None: nothing from `start` on."""
        first = self.find(start)
        if first is None:
            return None
        position, header = first
        if header.last_offset >= upper_bound:
            return b""
        if header.size > max_bytes:
            return self._file.read(position, header.size) if at_least_one else b""
        records = self._file.read(position, max_bytes)
        end = whole_batches(records, upper_bound)
        return records if end == len(records) else records[:end]

    def read_at(self, position: int, size: int, upper_bound: Offset) -> bytes:
        """Read at most `size` bytes from a batch on, cut to complete batches below `upper_bound`; on any thread."""
        records = self._file.read(position, size)
        return records[: whole_batches(records, upper_bound)]

    def batches_at_time(self, timestamp: int, start: Offset) -> Iterator[PlacedBatch]:
        """The batches from a little before the first that may have this timestamp or a later one, and `start`."""
        before = self._times.entry_before(timestamp)
        if before is not None and not self._has_timestamp(before):
            self._rebuild_indexes()
            before = self._times.entry_before(timestamp)
        return self._batches_near(max(-1 if before is None else before[1], start - self.base_offset))

    # Writing

    def append(self, buffers: Sequence[bytes | memoryview], batches: Iterable[PlacedBatch]) -> None:
        """Append batches with one write; their positions are relative to `buffers`."""
        start = self._file.size
        self._file.append(buffers)
        self.is_dirty = True
        for position, header in batches:
            self._record_batch(start + position, header)
            self._newest = PlacedBatch(start + position, header)

    def _record_batch(self, position: int, header: BatchHeader) -> None:
        relative_offset = header.last_offset - self.base_offset
        if position == 0:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self._largest[0]:
            self._largest = (header.max_timestamp, relative_offset)
        if position - self._last_entry_position > self._config.index_interval_bytes:
            self._index.add(relative_offset, position)
            self._times.add(*self._largest)
            self._last_entry_position = position
        self.next_offset = Offset(header.last_offset + 1)
        self.last_epoch = LeaderEpoch(header.leader_epoch)

    def has_room(self, incoming_size: int, last_offset: int, config: LogConfig) -> bool:
        """Whether a set fits by size, by the width of relative offsets, and by the size of the indexes.

        The time index reserves a slot for the entry added when the segment is full.
        """
        return (
            self.size <= config.segment_bytes - incoming_size
            and last_offset - self.base_offset <= MAX_RELATIVE_OFFSET
            and (len(self._index) + 1) * OFFSET_ENTRY_SIZE <= config.segment_index_bytes
            and (len(self._times) + 2) * TIME_ENTRY_SIZE <= config.segment_index_bytes
        )

    def must_roll(
        self, incoming_size: int, last_offset: int, max_timestamp: int, now_ms: int, config: LogConfig
    ) -> bool:
        """Whether a set needs a new segment. The age is taken from batch timestamps, else from the wall clock."""
        if self.size == 0:
            return last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        timestamps_of_batches = self.first_timestamp >= 0 and max_timestamp >= 0
        age_ms = max_timestamp - self.first_timestamp if timestamps_of_batches else now_ms - self.created_ms
        return age_ms > config.segment_ms_max - self.jitter_ms or not self.has_room(incoming_size, last_offset, config)

    def truncate(self, offset: Offset) -> bool:
        """Truncate the file before the first batch that ends at or after `offset`; returns whether bytes went."""
        found = self.find(offset)
        if found is None:
            return False
        position, header = found
        self._index.cut(position)
        self._times.cut(header.base_offset - self.base_offset)
        # The index files first: entries of removed batches would point into later ones.
        self._save_indexes_anew()
        # Read before the file is changed: what raises must leave batches and derived values as they agree.
        # A damaged batch among them, which the scrub has not found yet, makes the index sparser and nothing else.
        walk = self._walk_uncovered(position, expected_in_segment(self.base_offset))
        uncovered = [PlacedBatch(checked.position, checked.header) for checked in walk]
        self._file.truncate(position)
        self.is_dirty, self._newest = True, None
        if position == 0:
            self.first_timestamp = NO_TIMESTAMP
        self._forget_uncovered()
        for placed in uncovered:
            self._record_batch(*placed)
        return True

    # Flushing and deleting

    def flusher(self) -> Callable[[], None]:
        """A function that flushes what the segment holds now, on any thread; to be called once."""
        self.is_dirty = False
        return self._file.flusher()

    def save_indexes(self, flushers: list[Callable[[], None]] | None = None) -> None:
        """Append to the index files the entries they lack; called when the segment is full or closed. Without
        `flushers`, which get one for each file, they are not flushed: what is lost of them is made again.

        The times first: batches that the offset index covers are not read again, so their times must be there.
        """
        self._newest = None
        self._times.add(*self._largest)
        self._append(TIME_INDEX_SUFFIX, self._times.encode(self._times_on_disk), flushers)
        self._times_on_disk = len(self._times)
        self._append(INDEX_SUFFIX, self._index.encode(self._entries_on_disk), flushers)
        self._entries_on_disk = len(self._index)

    def complete(self) -> list[Callable[[], None]]:
        """Save the indexes of a segment that is not in use yet; returns functions that flush all its files, each to be
        called once, on any thread.
        """
        flushers = [self.flusher()]
        self.save_indexes(flushers)
        return flushers

    def _save_indexes_anew(self) -> None:
        if self._entries_on_disk > len(self._index):
            self._rewrite(INDEX_SUFFIX, self._index.encode(0))
            self._entries_on_disk = len(self._index)
        if self._times_on_disk > len(self._times):
            self._rewrite(TIME_INDEX_SUFFIX, self._times.encode(0))
            self._times_on_disk = len(self._times)

    def _append(self, suffix: str, content: bytes, flushers: list[Callable[[], None]] | None) -> None:
        if not content and (self._state or not self.size):
            return
        with closing(self._disk.open_file(self._path_of(suffix))) as file:
            if content:
                file.append([content])
            if flushers is not None:
                flushers.append(file.flusher())

    def _rewrite(self, suffix: str, content: bytes) -> None:
        with closing(self._disk.open_file(self._path_of(suffix))) as file:
            file.truncate(0)
            if content:
                file.append([content])

    def mark_deleted(self) -> list[str]:
        """Rename the segment's files with the deleted suffix and close it; returns their paths.

        The batches go last, and until then the segment is usable: indexes can be missing. May be called again after an
        error.
        """
        for suffix in reversed(SUFFIXES):
            try:
                self._disk.rename(self._stem + suffix, self._stem + suffix + DELETED_SUFFIX)
            except FileNotFoundError:
                if suffix == LOG_SUFFIX and not self._is_deleted:
                    raise
        self._is_deleted = True
        self.close()
        return [self._stem + suffix + DELETED_SUFFIX for suffix in SUFFIXES]

    def rename_to(self, state: str) -> None:
        """Rename the segment's files to those with the suffix `state`. The batches go last: indexes can be missing."""
        for suffix in reversed(SUFFIXES):
            self._disk.rename(self._path_of(suffix), self._stem + suffix + state)
        self._state = state

    def discard(self) -> None:
        """Close the segment and remove its files."""
        self.close()
        for suffix in SUFFIXES:
            self._disk.remove_file(self._path_of(suffix))

    def set_modified(self, modified_ms: int) -> None:
        """Set when the batches were last written, by which a segment without timestamps expires."""
        self._disk.set_modified(self.path, modified_ms)

    def close(self) -> None:
        self._file.close()
