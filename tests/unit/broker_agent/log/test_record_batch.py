"""The header codec against an independent implementation of the format, and its arithmetic."""

from functools import partial

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.log.batch_check import BatchWalk, expected_in_segment
from broker_agent.log.record_batch import (
    HEADER_SIZE,
    MAX_SEQUENCE,
    crc32c,
    find_damage,
    parse_header,
    stamp,
    stamp_append_time,
    walk,
    whole_batches,
)
from cluster.model.broker import LeaderEpoch, Offset
from simulator.record_batches import encode_batch


def built_by_client(count: int, timestamp: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for number in range(count):
        builder.append(number, timestamp=timestamp, key=b"key", value=b"value", headers=[])
    return bytes(builder.build())


@pytest.mark.rule("R0.2")
@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_the_checksum_is_that_of_rfc_3720(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum
    assert crc32c(memoryview(data)) == checksum


@pytest.mark.rule("R0.1", "R7.5")
def test_a_client_library_reads_what_was_stamped() -> None:
    batch = built_by_client(3, 77)
    header = parse_header(batch)
    assert (header.record_count, header.last_offset_delta, header.max_timestamp) == (3, 2, 77)
    assert find_damage(header, batch) is None

    stamped = b"".join(stamp(batch, Offset(1000), LeaderEpoch(9)))
    assert find_damage(parse_header(stamped), stamped) is None
    read = DefaultRecordBatch(stamped)
    assert read.validate_crc()
    assert [record.offset for record in read] == [1000, 1001, 1002]

    timed = stamp_append_time(batch, 123)
    assert find_damage(parse_header(timed), timed) is None
    read = DefaultRecordBatch(timed)
    assert read.validate_crc()
    assert (read.max_timestamp, read.timestamp_type) == (123, 1)


@given(
    st.binary(max_size=200),
    st.integers(1, 1000),
    st.integers(0, 2**60),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**60),
)
def test_encoding_and_parsing_agree(records: bytes, count: int, base: int, epoch: int, timestamp: int) -> None:
    batch = encode_batch(records, count, base_offset=base, leader_epoch=epoch, max_timestamp=timestamp)
    header = parse_header(batch)
    assert (header.size, header.base_offset, header.leader_epoch) == (HEADER_SIZE + len(records), base, epoch)
    assert (header.last_offset, header.max_timestamp, header.record_count) == (base + count - 1, timestamp, count)
    assert find_damage(header, batch) is None


@given(st.binary(min_size=1, max_size=50), st.data())
def test_any_changed_byte_behind_the_leaders_fields_is_a_fault(records: bytes, data: st.DataObject) -> None:
    batch = bytearray(encode_batch(records, 1))
    position = data.draw(st.integers(16, len(batch) - 1))
    batch[position] ^= data.draw(st.integers(1, 255))
    assert find_damage(parse_header(batch), batch) is not None


def test_a_walk_ends_where_batches_end() -> None:
    batches = [encode_batch(b"r" * size, 2, base_offset=2 * number) for number, size in enumerate((10, 0, 99))]
    whole = b"".join(batches)
    for cut in range(len(whole)):
        expected = sum(cut >= len(b"".join(batches[: number + 1])) for number in range(3))
        assert len(list(walk(whole[:cut]))) == expected
        assert whole_batches(whole[:cut], 100) == len(b"".join(batches[:expected]))
    assert whole_batches(whole, 3) == len(batches[0])
    assert list(walk(whole + bytes(100))) == list(walk(whole))


@pytest.mark.rule("R7.6")
def test_a_file_that_became_shorter_ends_with_a_fault() -> None:
    """As one that is truncated while it is read; the second batch leaves a gap, for which the next one is read too."""
    batches = [encode_batch(b"r" * 9, 2, base_offset=base) for base in (0, 5, 7)]
    content = b"".join(batches)
    ends = {sum(map(len, batches[:n])): n for n in range(4)}
    for kept in range(len(content) + 1):
        found = BatchWalk(partial(_read, content[:kept]), len(content), expected_in_segment(0))
        sound = len([*found])
        assert sound == max(n for end, n in ends.items() if end <= kept)
        assert (found.fault is None) == (kept == len(content))


def _read(content: bytes, position: int, length: int) -> bytes:
    return content[position : position + length]


def test_the_sequence_number_after_the_largest_is_zero() -> None:
    batch = encode_batch(b"", 3, producer_id=1, producer_epoch=0, base_sequence=MAX_SEQUENCE)
    assert parse_header(batch).last_sequence == 1
