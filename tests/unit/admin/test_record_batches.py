"""Batches as the client makes and reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.record_batches import BatchBuilder, Record, build_batches, decode_records
from cluster.broker import Offset
from cluster.errors import ErrorCode, LogAppendError

optional_bytes = st.none() | st.binary(max_size=40)


def batch_of(*values: bytes | None) -> bytes:
    builder = BatchBuilder(1 << 20)
    for value in values:
        builder.append(1_000, None, value)
    return builder.build()


def at_offset(batch: bytes, base: int) -> bytes:
    """What a leader does to a batch: the base offset is outside of the checksum."""
    return base.to_bytes(8, "big") + batch[8:]


@given(st.lists(st.tuples(st.integers(0, 2**40), optional_bytes, optional_bytes), min_size=1, max_size=30))
def test_what_is_built_is_what_is_decoded(records: list[tuple[int, bytes | None, bytes | None]]) -> None:
    builder = BatchBuilder(1 << 20)
    for timestamp, key, value in records:
        assert builder.append(timestamp, key, value)
    decoded = decode_records(builder.build(), Offset(0))
    assert [(r.timestamp, r.key, r.value) for r in decoded.records] == records
    assert [r.offset for r in decoded.records] == list(range(len(records)))
    assert decoded.next_offset == len(records)


def test_a_batch_takes_its_first_record_at_any_size_and_no_more_when_full() -> None:
    builder = BatchBuilder(100)
    assert builder.append(0, None, b"x" * 1000)
    assert not builder.append(0, None, b"y")
    assert builder.count == 1


def test_records_before_the_wanted_offset_are_passed_over() -> None:
    data = at_offset(batch_of(b"a", b"b", b"c"), 10) + at_offset(batch_of(b"d"), 13)
    decoded = decode_records(data, Offset(12))
    assert [(r.offset, r.value) for r in decoded.records] == [(12, b"c"), (13, b"d")]
    assert decoded.next_offset == 14


def test_a_batch_that_is_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    whole, cut = at_offset(batch_of(b"a"), 0), at_offset(batch_of(b"b"), 1)
    decoded = decode_records(whole + cut[:-3], Offset(0))
    assert [r.value for r in decoded.records] == [b"a"]
    assert decoded.next_offset == 1


def test_nothing_decodes_to_nothing() -> None:
    assert decode_records(b"", Offset(7)).next_offset == 7


def test_a_flipped_bit_is_a_corrupt_message() -> None:
    data = bytearray(batch_of(b"hello"))
    data[-2] ^= 1
    with pytest.raises(LogAppendError) as refused:
        decode_records(bytes(data), Offset(0))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=40), st.integers(80, 600))
def test_cutting_into_batches_keeps_every_record_in_order(values: list[bytes], batch_size: int) -> None:
    records = [Record(Offset(i), 5, None, value) for i, value in enumerate(values)]
    batches = build_batches(records, batch_size)
    assert [r.value for batch in batches for r in decode_records(batch, Offset(0)).records] == values
