"""Batches as the client makes and reads them."""

from typing import Any

import crc32c
import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from hypothesis import given
from hypothesis import strategies as st

from admin.consuming.record_batches import BadBatchError, BatchBuilder, Record, build_batches, decode_records
from cluster.model.broker import Offset
from cluster.model.compression import CompressionCodec
from tests.examples import examples

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


def test_a_flipped_bit_is_a_bad_batch() -> None:
    data = bytearray(at_offset(batch_of(b"hello", b"world"), 7))
    data[-2] ^= 1
    with pytest.raises(BadBatchError, match="checksum") as refused:
        decode_records(bytes(data), Offset(7))
    assert (refused.value.base_offset, refused.value.next_offset) == (7, 9)


def sealed(data: bytes | bytearray) -> bytes:
    """With the checksum of what it is."""
    return bytes(data[:17]) + crc32c.crc32c(data[21:]).to_bytes(4, "big") + bytes(data[21:])


def compressed(codec: int, section: bytes, count: int = 2) -> bytes:
    whole = bytearray(batch_of(*[b"v"] * count)[:61] + section)
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    whole[22] = codec
    return sealed(whole)


GARBAGE = {
    "magic": sealed(batch_of(b"v")[:16] + b"\1" + batch_of(b"v")[17:]),
    "checksum": batch_of(b"v")[:-1] + b"x",
    "records": compressed(0, b"\xff" * 40),
    "no records": compressed(0, b""),
    "too few records": compressed(0, batch_of(b"v")[61:]),
    "codec": compressed(5, b""),
    "length": batch_of(b"v")[:8] + b"\0\0\0\5" + batch_of(b"v")[12:],
    "offsets": sealed(batch_of(b"v")[:23] + b"\xff\xff\xff\xff" + batch_of(b"v")[27:]),
    "a short answer": b"\0" * 30,
} | {
    f"{codec} of {name}": compressed(codec, section)
    for codec in (1, 2, 3, 4)
    for name, section in {"nothing": b"", "zeros": bytes(30), "garbage": b"garbage" * 5}.items()
}


@pytest.mark.rule("R7.19")
@pytest.mark.parametrize("case", GARBAGE)
def test_a_bad_batch_names_itself_and_what_follows_it(case: str) -> None:
    data = GARBAGE[case]
    with pytest.raises(BadBatchError) as refused:
        decode_records(data, Offset(0))
    assert refused.value.base_offset == 0
    assert refused.value.next_offset == max(1, int.from_bytes(data[23:27], "big", signed=True) + 1)
    assert refused.value.why


@pytest.mark.rule("R7.19")
def test_the_records_before_a_bad_batch_are_not_lost() -> None:
    data = at_offset(batch_of(b"a", b"b"), 10) + at_offset(GARBAGE["records"], 12) + at_offset(batch_of(b"c"), 14)
    assert [r.value for r in decode_records(data, Offset(10)).records] == [b"a", b"b"]
    with pytest.raises(BadBatchError) as refused:
        decode_records(data[len(batch_of(b"a", b"b")) :], Offset(12))
    assert (refused.value.base_offset, refused.value.next_offset) == (12, 14)


def test_the_next_batch_says_where_it_begins_when_the_bad_ones_offsets_are_wrong() -> None:
    far = bytearray(batch_of(b"v"))
    far[23:27] = (1 << 30).to_bytes(4, "big")
    with pytest.raises(BadBatchError) as refused:
        decode_records(bytes(far) + at_offset(batch_of(b"c"), 1), Offset(0))
    assert refused.value.next_offset == 1


encoders = st.sampled_from([(0, bytes), (1, gzip_encode), (2, snappy_encode), (3, lz4_encode), (4, zstd_encode)])


@pytest.mark.rule("R7.19")
@examples(150, deep=500)
@given(encoders, st.lists(st.binary(max_size=30), min_size=1, max_size=5), st.data())
def test_any_damage_is_read_or_named(encoder: tuple[int, Any], values: list[bytes], data: st.DataObject) -> None:
    codec, encode = encoder
    whole = bytearray(compressed(codec, encode(batch_of(*values)[61:]), len(values)))
    assert [r.value for r in decode_records(bytes(whole), Offset(0)).records] == values
    for position in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[position] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(1, len(whole)))])
    for damaged in (bytes(whole), sealed(whole), cut, cut + bytes(whole)):
        assert offset_behind(damaged) > 0


def offset_behind(data: bytes) -> int:
    """Where a reader goes on, whether it could read the first batch or has to skip it."""
    try:
        return decode_records(data, Offset(0)).next_offset
    except BadBatchError as error:
        return error.next_offset if error.why else -1


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=40), st.integers(80, 600))
def test_cutting_into_batches_keeps_every_record_in_order(values: list[bytes], batch_size: int) -> None:
    records = [Record(Offset(i), 5, None, value) for i, value in enumerate(values)]
    batches = build_batches(records, batch_size)
    assert [r.value for batch in batches for r in decode_records(batch, Offset(0)).records] == values


@pytest.mark.parametrize("codec", CompressionCodec)
def test_headers_and_compression_are_read_back(codec: CompressionCodec) -> None:
    headers = (("source", b"shell"), ("source", None), ("binary", b"\xff"))
    records = [Record(Offset(i), 5, b"k", b"v" * 100, headers) for i in range(50)]
    (batch,) = build_batches(records, 1 << 20, codec)
    assert decode_records(batch, Offset(0)).records == records
    (plain,) = build_batches(records, 1 << 20)
    assert (len(batch) < len(plain)) is (codec is not CompressionCodec.NONE)
