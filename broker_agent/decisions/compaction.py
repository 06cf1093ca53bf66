"""Which logs are cleaned, from which offset up to which, and which segments become one. Pure.

Source: Kafka LogCleanerManager, LogToClean, Cleaner.groupSegmentsBySize; KIP-58, KIP-354.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from cluster.model.broker import Offset

_RELATIVE_OFFSET_MAX: Final = 0x7FFF_FFFF


class SegmentExtent(Struct, frozen=True):
    """What the choice needs of a segment. Sizes in bytes; timestamps in ms, -1 if unknown.

    `first_timestamp`: of its first batch; `largest_timestamp`: of all batches.
    """

    base_offset: Offset
    size: int
    first_timestamp: int = -1
    largest_timestamp: int = -1
    index_size: int = 0
    time_index_size: int = 0


class CompactionPolicy(Struct, frozen=True):
    """The topic's settings of compaction; lags in ms."""

    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 0x7FFF_FFFF_FFFF_FFFF


class LogExtent(Struct, frozen=True):
    """A log as the cleaner sees it: its segments, the last one active, and its offsets.

    `first_dirty`: where the last cleaning ended; None if there was none.
    """

    segments: Sequence[SegmentExtent]
    log_start: Offset
    log_end: Offset
    last_stable: Offset
    first_dirty: Offset | None = None


class LogDirt(Struct, frozen=True):
    """How dirty a log is. Its offsets from `first_dirty` up to, not including, `first_uncleanable` can be cleaned.

    `delay_ms`: for how long its oldest dirty record is overdue by `max.compaction.lag.ms`; 0 if it is not.
    """

    first_dirty: Offset
    first_uncleanable: Offset
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int = 0

    @property
    def ratio(self) -> float:
        """The share of dirty bytes in all that a cleaning would read; 0 for a log without any."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_ratio: float) -> bool:
        """Whether there is anything to clean, and enough of it or for too long."""
        return self.cleanable_bytes > 0 and (self.delay_ms > 0 or self.ratio > min_ratio)


def measure_dirt(log: LogExtent, policy: CompactionPolicy, now_ms: int) -> LogDirt:
    """Measure how dirty a log is now.

    Neither the active segment is cleaned, nor what is at or above the last stable offset, nor a segment with records
    younger than `min.compaction.lag.ms`.
    """
    first_dirty = _first_dirty(log)
    active = log.segments[-1]
    dirty = _sealed_since(log.segments, first_dirty)
    bounds = [log.last_stable, active.base_offset]
    if policy.min_compaction_lag_ms > 0:
        newest = now_ms - policy.min_compaction_lag_ms
        bounds += [s.base_offset for s in dirty if s.largest_timestamp > newest][:1]
    # A segment is cleaned whole or not at all.
    beyond = _sealed_since(log.segments, max(first_dirty, min(bounds)))
    first_uncleanable = beyond[0].base_offset if beyond else active.base_offset
    return LogDirt(
        first_dirty,
        first_uncleanable,
        clean_bytes=sum(s.size for s in log.segments if s.base_offset < first_dirty),
        cleanable_bytes=sum(s.size for s in dirty if s.base_offset < first_uncleanable),
        delay_ms=_overdue_ms(dirty, now_ms - policy.max_compaction_lag_ms),
    )


def _first_dirty(log: LogExtent) -> Offset:
    """Find where the last cleaning ended; the log start if that is no offset of the log any more."""
    if log.first_dirty is None or not log.log_start <= log.first_dirty <= log.log_end:
        return log.log_start
    return log.first_dirty


def _sealed_since(segments: Sequence[SegmentExtent], offset: Offset) -> Sequence[SegmentExtent]:
    """The segments from the one that would contain `offset` on, without the active one."""
    at = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    return segments[max(0, at) : -1]


def _overdue_ms(dirty: Iterable[SegmentExtent], clean_until_ms: int) -> int:
    oldest = min((s.first_timestamp for s in dirty if s.first_timestamp > 0), default=clean_until_ms)
    return max(0, clean_until_ms - oldest)


class _Room:
    """What is left of one segment while others are added to its group."""

    def __init__(self, first: SegmentExtent, segment_bytes: int, index_bytes: int) -> None:
        self._base_offset = first.base_offset
        self._bytes = segment_bytes - first.size
        self._index_bytes = index_bytes - first.index_size
        self._time_index_bytes = index_bytes - first.time_index_size

    def takes(self, segment: SegmentExtent, end: Offset) -> bool:
        """Whether a segment that ends at `end` fits; then it is counted."""
        # One without batches adds no offsets, whatever range it stands for.
        has_wide_offsets = segment.size > 0 and end - 1 - self._base_offset > _RELATIVE_OFFSET_MAX
        self._bytes -= segment.size
        self._index_bytes -= segment.index_size
        self._time_index_bytes -= segment.time_index_size
        return not has_wide_offsets and min(self._bytes, self._index_bytes, self._time_index_bytes) >= 0


def group_segments(
    segments: Sequence[SegmentExtent], end: Offset, *, segment_bytes: int, index_bytes: int
) -> list[list[SegmentExtent]]:
    """Group consecutive segments so that each group fits one segment by bytes, by its indexes, and by offsets, which an
    index holds relative to the base offset. A segment that is too large by itself is a group of its own.

    `end`: the base offset of the segment behind the last one.
    """
    groups: list[list[SegmentExtent]] = []
    room: _Room | None = None
    for segment, segment_end in zip(segments, [*(s.base_offset for s in segments[1:]), end], strict=False):
        if room is not None and room.takes(segment, segment_end):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            room = _Room(segment, segment_bytes, index_bytes)
    return groups
