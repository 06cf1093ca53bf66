"""Which segments retention deletes."""

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.retention import SegmentFacts, count_expired
from cluster.model.broker import Offset


def facts(*ends: int, size: int = 100, timestamp: int = 0, active_size: int | None = None) -> list[SegmentFacts]:
    """Segments that end at the given offsets; the last one is active."""
    sizes = [size] * (len(ends) - 1) + [size if active_size is None else active_size]
    last = len(ends) - 1
    return [
        SegmentFacts(Offset(end), sizes[number], timestamp, is_active=number == last) for number, end in enumerate(ends)
    ]


@pytest.mark.rule("R10.17")
@pytest.mark.parametrize(
    ("segments", "config", "log_start", "high_watermark", "count"),
    [
        # The worked example: the second one's successor begins above the high watermark.
        (facts(100, 200, 250), LogConfig(retention_ms=1), 0, 150, 1),
        (facts(100, 200, 250), LogConfig(retention_ms=1), 0, 200, 2),
        (facts(100, 200, 250), LogConfig(retention_ms=1), 0, 250, 3),
        (facts(100, 200, 200, active_size=0), LogConfig(retention_ms=1), 0, 200, 2),
        (facts(100, 200, 250), LogConfig(retention_ms=-1), 0, 250, 0),
        (facts(100, 200, 250), LogConfig(retention_ms=10_000), 0, 250, 0),
        (facts(100, 200, 250), LogConfig(retention_ms=9_999), 0, 250, 3),
        (facts(100, 200, 250, timestamp=20_000), LogConfig(retention_ms=1), 0, 250, 0),
        (facts(100, 200, 250), LogConfig(retention_ms=-1, retention_bytes=300), 0, 250, 0),
        (facts(100, 200, 250), LogConfig(retention_ms=-1, retention_bytes=200), 0, 250, 1),
        (facts(100, 200, 250), LogConfig(retention_ms=-1, retention_bytes=101), 0, 250, 1),
        (facts(100, 200, 250), LogConfig(retention_ms=-1, retention_bytes=0), 0, 250, 3),
        (facts(100, 200, 250), LogConfig(retention_ms=-1, retention_bytes=0), 0, 100, 1),
        (facts(100, 200, 250), LogConfig(retention_ms=-1), 199, 250, 1),
        (facts(100, 200, 250), LogConfig(retention_ms=1, cleanup_policy="compact"), 100, 250, 1),
        (facts(100, 200, 250), LogConfig(retention_ms=-1), 250, 250, 2),
    ],
)
def test_the_oldest_segments_go(
    segments: list[SegmentFacts], config: LogConfig, log_start: int, high_watermark: int, count: int
) -> None:
    assert count_expired(segments, config, 10_000, Offset(log_start), Offset(high_watermark)) == count
