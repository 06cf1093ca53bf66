"""Which logs are cleaned, from where to where, and which segments become one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.decisions.compaction import (
    CompactionPolicy,
    LogDirt,
    LogExtent,
    SegmentExtent,
    group_segments,
    measure_dirt,
)
from cluster.model.broker import Offset

NOW = 1_000_000


def segment(base: int, size: int = 100, first: int = 10, largest: int = 20, index: int = 0) -> SegmentExtent:
    return SegmentExtent(Offset(base), size, first, largest, index, index)


def dirt(
    *bases: int,
    first_dirty: int | None = None,
    log_start: int = 0,
    log_end: int = 1000,
    last_stable: int = 1000,
    policy: CompactionPolicy = CompactionPolicy(),
) -> LogDirt:
    log = LogExtent(
        [segment(base) for base in bases],
        log_start=Offset(log_start),
        log_end=Offset(log_end),
        last_stable=Offset(last_stable),
        first_dirty=None if first_dirty is None else Offset(first_dirty),
    )
    return measure_dirt(log, policy, NOW)


@pytest.mark.rule("R10.22")
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # Never cleaned: everything but the active segment is dirty.
        (dirt(0, 100, 200), (0, 200, 0, 200)),
        # Only the active segment: nothing to clean.
        (dirt(0), (0, 0, 0, 0)),
        # Cleaned up to 100.
        (dirt(0, 100, 200, first_dirty=100), (100, 200, 100, 100)),
        # Cleaned up to within a segment, as the offset map was full: it is clean and dirty.
        (dirt(0, 100, 200, first_dirty=150), (150, 200, 200, 100)),
        # Everything but the active segment is clean.
        (dirt(0, 100, 200, first_dirty=200), (200, 200, 200, 0)),
        # The last stable offset is within a segment, which is left alone.
        (dirt(0, 100, 200, last_stable=150), (0, 100, 0, 100)),
        (dirt(0, 100, 200, last_stable=100), (0, 100, 0, 100)),
        (dirt(0, 100, 200, last_stable=0), (0, 0, 0, 0)),
        # It is below what was cleaned already.
        (dirt(0, 100, 200, 300, first_dirty=150, last_stable=50), (150, 100, 200, 0)),
        # The checkpoint is above the log end, or below the log start: the log was cut, or is another one.
        (dirt(0, 100, 200, first_dirty=1001), (0, 200, 0, 200)),
        (dirt(100, 200, 300, first_dirty=50, log_start=120), (120, 300, 100, 200)),
    ],
)
def test_what_is_dirty_and_may_be_cleaned(found: LogDirt, expected: tuple[int, int, int, int]) -> None:
    assert (found.first_dirty, found.first_uncleanable, found.clean_bytes, found.cleanable_bytes) == expected


@pytest.mark.rule("R10.22")
def test_records_younger_than_the_minimal_lag_are_not_cleaned() -> None:
    segments = [
        segment(0, largest=NOW - 60),
        segment(100, largest=NOW - 40),
        segment(200, largest=NOW - 70),
        segment(300),
    ]
    log = LogExtent(segments, Offset(0), Offset(400), Offset(400))
    found = {
        lag: measure_dirt(log, CompactionPolicy(min_compaction_lag_ms=lag), NOW).first_uncleanable
        for lag in (0, 40, 41, 60, 61)
    }
    assert found == {0: 300, 40: 300, 41: 100, 60: 100, 61: 0}


@pytest.mark.rule("R10.22")
def test_without_a_minimal_lag_records_of_the_future_are_cleaned_as_well() -> None:
    log = LogExtent([segment(0, largest=NOW + 60), segment(100)], Offset(0), Offset(200), Offset(200))
    found = [measure_dirt(log, CompactionPolicy(min_compaction_lag_ms=lag), NOW).first_uncleanable for lag in (0, 1)]
    assert found == [100, 0]


@pytest.mark.rule("R10.22")
def test_records_older_than_the_maximal_lag_are_overdue_however_few_they_are() -> None:
    segments = [segment(0, 900, first=5), segment(100, 100, first=NOW - 70), segment(200, 100, first=-1), segment(300)]
    log = LogExtent(segments, Offset(0), Offset(400), Offset(400), Offset(100))
    found = measure_dirt(log, CompactionPolicy(max_compaction_lag_ms=50), NOW)
    assert found.delay_ms == 20
    assert found.is_due(0.99)
    found = measure_dirt(log, CompactionPolicy(max_compaction_lag_ms=70), NOW)
    assert found.delay_ms == 0
    assert not found.is_due(0.99)


@pytest.mark.rule("R10.22")
@pytest.mark.parametrize(
    ("clean", "cleanable", "delay_ms", "min_ratio", "expected"),
    [
        (100, 100, 0, 0.5, False),
        (100, 101, 0, 0.5, True),
        (100, 1, 0, 0.0, True),
        (100, 0, 0, 0.0, False),
        (0, 0, 0, 0.0, False),
        (100, 0, 10, 0.0, False),
        (100, 1, 10, 1.0, True),
        (0, 100, 0, 1.0, False),
    ],
)
def test_a_log_is_due_above_the_ratio_or_when_overdue(
    clean: int, cleanable: int, delay_ms: int, min_ratio: float, expected: bool
) -> None:
    assert LogDirt(Offset(0), Offset(0), clean, cleanable, delay_ms).is_due(min_ratio) is expected


def groups(segments: list[SegmentExtent], end: int, segment_bytes: int = 300, index_bytes: int = 30) -> list[list[int]]:
    found = group_segments(segments, Offset(end), segment_bytes=segment_bytes, index_bytes=index_bytes)
    return [[each.base_offset for each in group] for group in found]


@pytest.mark.rule("R10.24")
def test_segments_are_grouped_as_far_as_bytes_indexes_and_offsets_fit_into_one() -> None:
    assert groups([], 0) == []
    assert groups([segment(0), segment(10), segment(20)], 30) == [[0, 10, 20]]
    assert groups([segment(0), segment(10), segment(20), segment(30, 1)], 40) == [[0, 10, 20], [30]]
    assert groups([segment(0, 400), segment(10)], 20) == [[0], [10]]
    assert groups([segment(0, index=20), segment(10, index=10), segment(20, index=1)], 30) == [[0, 10], [20]]
    times = [SegmentExtent(Offset(0), 1, time_index_size=20), SegmentExtent(Offset(10), 1, time_index_size=11)]
    assert groups(times, 20) == [[0], [10]]
    wide = 2**31
    assert groups([segment(0), segment(10)], wide) == [[0, 10]]
    assert groups([segment(0), segment(10)], wide + 1) == [[0], [10]]
    assert groups([segment(0), segment(10, size=0)], wide + 1) == [[0, 10]]


@pytest.mark.rule("R10.24")
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20), st.integers(1, 2**30)), max_size=30))
def test_groups_are_all_segments_in_order_and_none_exceeds_a_segment(found: list[tuple[int, int, int]]) -> None:
    segments, base = [], 0
    for size, index, width in found:
        segments.append(segment(base, size, index=index))
        base += width
    result = group_segments(segments, Offset(base), segment_bytes=300, index_bytes=30)
    assert [each for group in result for each in group] == segments
    for group in result:
        assert len(group) == 1 or sum(each.size for each in group) <= 300
        assert len(group) == 1 or sum(each.index_size for each in group) <= 30
