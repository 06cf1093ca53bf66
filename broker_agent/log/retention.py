"""Selects the segments that retention deletes. Source: Kafka UnifiedLog.deleteOldSegments."""

from collections.abc import Sequence

from msgspec import Struct

from broker_agent.log.config import LogConfig
from broker_agent.log.segment import Segment
from cluster.model.broker import Offset


class SegmentFacts(Struct, frozen=True):
    """`end_offset`: base offset of the next segment, or the log end. `timestamp` in ms, never unknown."""

    end_offset: Offset
    size: int
    timestamp: int
    is_active: bool


def describe(segments: Sequence[Segment], log_end_offset: Offset) -> list[SegmentFacts]:
    """The attributes that retention uses. A segment without timestamps has the age of its file."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    return [
        SegmentFacts(
            end_offset=end,
            size=segment.size,
            timestamp=segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.modified_ms,
            is_active=segment is segments[-1],
        )
        for segment, end in zip(segments, ends, strict=True)
    ]


def count_expired(
    segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int, log_start: Offset, high_watermark: Offset
) -> int:
    """The number of segments to delete, from the oldest on: as many as the criteria, applied in turn, permit.

    Nothing at or above the high watermark is deleted, and no empty active segment.
    """
    kept = 0
    while kept < len(segments) and not segments[kept].is_active and segments[kept].end_offset <= log_start:
        kept += 1
    if "delete" not in config.cleanup_policy:
        return kept
    kept += _count_old(segments[kept:], config, now_ms, high_watermark)
    return kept + _count_surplus(segments[kept:], config, high_watermark)


def _count_old(segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int, high_watermark: Offset) -> int:
    count = 0
    if config.retention_ms < 0:
        return 0
    for segment in segments:
        if not _may_go(segment, high_watermark) or now_ms - segment.timestamp <= config.retention_ms:
            break
        count += 1
    return count


def _count_surplus(segments: Sequence[SegmentFacts], config: LogConfig, high_watermark: Offset) -> int:
    count, surplus = 0, sum(segment.size for segment in segments) - config.retention_bytes
    if config.retention_bytes < 0:
        return 0
    for segment in segments:
        if not _may_go(segment, high_watermark) or surplus < segment.size:
            break
        surplus -= segment.size
        count += 1
    return count


def _may_go(segment: SegmentFacts, high_watermark: Offset) -> bool:
    return segment.end_offset <= high_watermark and not (segment.is_active and segment.size == 0)
