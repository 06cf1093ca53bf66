"""Which of the oldest segments may go. Pure. Source: Kafka UnifiedLog.deleteOldSegments; KIP-405's order of reasons."""

from collections.abc import Sequence

from msgspec import Struct

from broker_agent.ports import LogConfig
from cluster.broker import Offset


class SegmentFacts(Struct, frozen=True):
    """`end_offset`: base of the successor; the log end offset for the active one. `timestamp` in ms, never unknown."""

    end_offset: Offset
    size: int
    timestamp: int
    is_active: bool


def count_expired(
    segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int, log_start: Offset, high_watermark: Offset
) -> int:
    """How many segments, from the oldest on, retention deletes: all that one reason after the other allows.

    Nothing at or above the high watermark goes, and no empty active segment.
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
