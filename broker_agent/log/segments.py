"""The segments of one log in offset order; only the last one, the active segment, is written."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

from broker_agent.log.config import LogConfig
from broker_agent.log.disk import Disk
from broker_agent.log.log_metrics import UNOBSERVED, LogMetrics
from broker_agent.log.record_batch import BatchHeader
from broker_agent.log.segment import CLEANED_SUFFIX, SUFFIXES, SWAP_SUFFIX, PlacedBatch, Segment, segment_stem
from cluster.aio.clock import WallClock
from cluster.model.broker import Offset


class LogDependencies(NamedTuple):
    """Dependencies shared by all logs of an agent. `random`: for roll jitter and unique directory names."""

    disk: Disk
    clock: WallClock
    random: Random
    metrics: LogMetrics = UNOBSERVED


def open_segment(
    dependencies: LogDependencies, directory: str, base_offset: Offset, config: LogConfig, *, state: str = ""
) -> Segment:
    """Open or create a segment; its roll jitter is drawn once. `state`: the suffix of its files."""
    jitter_ms = dependencies.random.randint(0, max(0, min(config.segment_jitter_ms, config.segment_ms)))
    created_ms = dependencies.clock.now_ms()
    disk = dependencies.disk
    return Segment(disk, directory, base_offset, config, created_ms=created_ms, jitter_ms=jitter_ms, state=state)


def create_segment(
    dependencies: LogDependencies, directory: str, base_offset: Offset, config: LogConfig, *, state: str = ""
) -> Segment:
    """Create an empty segment; files of that name, left by a crash, are deleted. After an error nothing is left of it:
    a segment that nobody knows would begin within one that is still appended to.
    """
    _remove_files(dependencies.disk, directory, base_offset, state)
    segment = open_segment(dependencies, directory, base_offset, config, state=state)
    try:
        segment.create_indexes()
    except OSError:
        segment.close()
        _remove_files(dependencies.disk, directory, base_offset, state)
        raise
    segment.is_dirty = True
    return segment


def create_cleaned_segment(
    dependencies: LogDependencies, directory: str, base_offset: Offset, config: LogConfig
) -> Segment:
    """Create a segment for what a cleaning leaves, of which the next start removes the files until it is in use."""
    return create_segment(dependencies, directory, base_offset, config, state=CLEANED_SUFFIX)


def _remove_files(disk: Disk, directory: str, base_offset: Offset, state: str) -> None:
    for suffix in SUFFIXES:
        disk.remove_file(segment_stem(directory, base_offset) + suffix + state)


class Segments:
    """Never empty. Base offsets strictly increase."""

    def __init__(self, segments: list[Segment]) -> None:
        assert segments, "a log has at least one segment"
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __contains__(self, segment: object) -> bool:
        """Whether a segment is in use; a cleaning asks it of each segment that it reads, after each piece."""
        if not isinstance(segment, Segment):
            return False
        at = bisect_left(self._bases, segment.base_offset)
        return at < len(self._bases) and self._segments[at] is segment

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def size(self) -> int:
        """The bytes of all batches."""
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        assert segment.base_offset > self._bases[-1], "a new segment begins behind the active one"
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def replace_all(self, segment: Segment) -> None:
        self._segments, self._bases = [segment], [segment.base_offset]

    def replace(self, old: Sequence[Segment], cleaned: Sequence[Segment]) -> list[str]:
        """Replace consecutive segments by what a cleaning has left of them; returns paths as `drop_oldest` does.

        Raises OSError, after which only the next start can complete this: once all cleaned files are named `.swap`, the
        old ones are of no use. Source: Kafka LocalLog.replaceSegments.
        """
        first = bisect_left(self._bases, old[0].base_offset)
        assert self._segments[first : first + len(old)] == list(old), "the segments are consecutive"
        for segment in reversed(cleaned):
            segment.rename_to(SWAP_SUFFIX)
        self._segments[first : first + len(old)] = cleaned
        self._bases = [segment.base_offset for segment in self._segments]
        paths = [path for segment in reversed(old) for path in segment.mark_deleted()]
        for segment in cleaned:
            segment.rename_to("")
        return paths

    def restart_with(self, fresh: Segment) -> list[str]:
        """Replace all segments by an empty one, whose files are named as unfinished; returns paths as `drop_oldest`.

        Raises OSError, after which nothing is left of the new one.
        """
        try:
            paths = self.mark_all_deleted()
            fresh.rename_to("")
        except OSError:
            with suppress(OSError):
                fresh.discard()
            raise
        self.replace_all(fresh)
        return paths

    def drop_oldest(self, count: int) -> list[str]:
        """Remove the `count` oldest segments; returns the paths of the files to delete later."""
        assert count < len(self._segments), "the active segment stays"
        return [path for _ in range(count) for path in self._drop(0)]

    def drop_after(self, offset: Offset) -> list[str]:
        """Remove the segments whose base offset is above `offset`, except the first; returns paths as above.

        The last segment is removed first, so that a crash leaves a log without a gap.
        """
        keep = max(1, bisect_right(self._bases, offset))
        return [path for _ in range(len(self._segments) - keep) for path in self._drop(-1)]

    def mark_all_deleted(self) -> list[str]:
        """Rename the files of all segments, the last one first. `replace_all` must follow."""
        dropped = [path for _ in range(len(self._segments) - 1) for path in self._drop(-1)]
        return dropped + self.first.mark_deleted()

    def _drop(self, index: int) -> list[str]:
        """Remove one segment once its files are renamed: after an error it is still there, for the next attempt."""
        paths = self._segments[index].mark_deleted()
        del self._segments[index], self._bases[index]
        return paths

    def since(self, offset: Offset) -> list[Segment]:
        """The segments from the one that would contain `offset` on."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]

    def read(self, start: Offset, max_bytes: int, upper_bound: Offset, *, at_least_one: bool) -> bytes:
        """Read as Segment.read does; continue with the next segment if one has nothing at or after `start`."""
        for segment in self.since(start):
            records = segment.read(start, max_bytes, upper_bound, at_least_one=at_least_one)
            if records is not None:
                return records
        return b""

    def place(self, start: Offset) -> tuple[Segment, PlacedBatch] | None:
        """The first batch that ends at or after `start`, and its segment; None if there is none."""
        placed = ((segment, segment.find(start)) for segment in self.since(start))
        return next(((segment, batch) for segment, batch in placed if batch is not None), None)

    def bytes_between(self, start: Offset, end: Offset) -> int | None:
        """The bytes of the batches from the one with `start` up to `end`; None when they span segments."""
        if end <= start:
            return 0
        segment, *later = self.since(start)
        if later and end > later[0].base_offset:
            return None
        first, behind = segment.find(start), segment.find(end)
        if first is None:
            return 0
        return (segment.size if behind is None else behind.position) - first.position

    def last_before(self, offset: Offset) -> BatchHeader | None:
        """The last batch that ends before `offset`; None if there is none."""
        for segment in reversed(self._segments[: bisect_right(self._bases, offset)]):
            header = segment.last_before(offset)
            if header is not None:
                return header
        return None

    def headers(self, start: Offset) -> Iterator[BatchHeader]:
        """The headers of the batches that end at or after `start`, in order."""
        for segment in self.since(start):
            first = segment.find(start)
            if first is not None:
                yield from (header for _, header in segment.batches(first.position))

    def moved_to(self, directory: str) -> None:
        """Take note that the directory of the log was renamed."""
        for segment in self._segments:
            segment.moved_to(directory)

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
