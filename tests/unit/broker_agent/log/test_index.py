"""Sparse indexes: lookup of the greatest entry at or below the target, and corrupt files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.log.index import OffsetIndex, TimeIndex

increasing = st.lists(st.integers(1, 1000), max_size=30).map(
    lambda steps: [sum(steps[: number + 1]) for number in range(len(steps))]
)


@pytest.mark.rule("R10.2")
@given(increasing, st.integers(0, 30_000))
def test_the_position_is_that_of_the_greatest_entry_at_or_below(offsets: list[int], target: int) -> None:
    index = OffsetIndex()
    for offset in offsets:
        index.add(offset, offset * 10)
    assert index.entry_before(target) == max(
        ((offset, offset * 10) for offset in offsets if offset <= target), default=None
    )


@pytest.mark.rule("R10.1")
@given(increasing, st.integers(0, 30))
def test_what_is_written_in_parts_reads_back_as_a_whole(offsets: list[int], split: int) -> None:
    index, times = OffsetIndex(), TimeIndex()
    for offset in offsets:
        index.add(offset, offset * 10)
        times.add(offset * 7, offset)
    split = min(split, len(offsets))
    read = OffsetIndex.decode(index.encode(0)[: split * 8] + index.encode(split))
    read_times = TimeIndex.decode(times.encode(0)[: split * 12] + times.encode(split))
    assert read is not None
    assert read_times is not None
    assert (read.encode(0), read_times.encode(0)) == (index.encode(0), times.encode(0))


def test_entries_are_big_endian_numbers() -> None:
    index, times = OffsetIndex(), TimeIndex()
    index.add(1, 2)
    times.add(3, 4)
    assert index.encode(0) == bytes([0, 0, 0, 1, 0, 0, 0, 2])
    assert times.encode(0) == bytes([0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4])


@pytest.mark.rule("R9.15")
@pytest.mark.parametrize("content", [b"x", bytes(16), bytes(7) + b"\2" + bytes(7) + b"\1", bytes(8) + b"\xff" * 4])
def test_what_cannot_be_an_index_is_not_taken_for_one(content: bytes) -> None:
    assert OffsetIndex.decode(content) is None
    assert TimeIndex.decode(content) is None


def test_only_larger_timestamps_are_entered_and_cuts_drop_the_tail() -> None:
    times = TimeIndex()
    for timestamp, offset in ((5, 0), (4, 1), (5, 2), (9, 3)):
        times.add(timestamp, offset)
    assert len(times) == 2
    assert [times.entry_before(timestamp) for timestamp in (5, 6, 9, 10)] == [None, (5, 0), (5, 0), (9, 3)]
    times.cut(3)
    assert times.last == (5, 0)
