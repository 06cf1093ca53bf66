"""What a leader accepts of a client, compared with a plain reader: every codec, every kind of damage."""

import struct
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import example, given
from hypothesis import strategies as st

from broker_agent.log.config import LogConfig
from broker_agent.log.record_batch import FROM_CHECKSUM, HEADER_SIZE, crc32c, parse_header
from broker_agent.requests.client_batches import NO_KEY_METER, check_client_batch
from broker_agent.requests.record_walk import WINDOW, MalformedRecordsError, walk_records
from cluster.model.errors import ErrorCode, LogAppendError
from simulator.record_batches import encode_batch, encode_client_batch
from tests.brokers.reference_records import RefusedError, read_client_batch, read_records
from tests.examples import examples

NOW_MS = 1_700_000_000_000
LIMIT = 8 << 20
ANY = LogConfig(max_message_bytes=1 << 30)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ENCODERS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: gzip_encode,
    2: snappy_encode,
    3: lz4_encode,
    4: zstd_encode,
}


def number(value: int) -> bytes:
    """A zigzag number as Kafka's clients write it."""
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    rest &= (1 << 64) - 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def nullable(content: bytes | None) -> bytes:
    return number(-1) if content is None else number(len(content)) + content


def record(offset: int, value: bytes | None = b"v", key: bytes | None = None, *, headers: bytes = b"\0") -> bytes:
    body = b"\0" + number(0) + number(offset) + nullable(key) + nullable(value) + headers
    return number(len(body)) + body


def batch(section: bytes, count: int, codec: int = 0, **fields: int) -> bytes:
    return encode_batch(ENCODERS[codec](section), count, attributes=codec, **fields)


def sealed(damaged: bytearray | bytes) -> bytes:
    """With the length and the checksum of what it now is."""
    whole = bytearray(damaged)
    whole[8:12] = struct.pack(">i", len(whole) - 12)
    whole[17:21] = struct.pack(">I", crc32c(whole[21:]))
    return bytes(whole)


def refusal(records: bytes, config: LogConfig = ANY, limit: int = LIMIT) -> LogAppendError:
    with pytest.raises(LogAppendError) as caught:
        check_client_batch(records, config, NOW_MS, limit)
    return caught.value


GOOD = record(0) + record(1) + record(2)

MALFORMED = {
    "nothing that claims one record": (b"", 1, 0),
    "nothing that claims 2^31 - 1 records": (b"", 2**31 - 1, 0),
    "random bytes": (bytes(range(200, 240)), 3, 0),
    "a record fewer": (GOOD, 4, 3),
    "a record more": (GOOD, 2, 1),
    "a byte more": (GOOD + b"\0", 3, 2),
    "cut off": (GOOD[:-1], 3, 2),
    "offset twice": (record(0) + record(1) + record(1), 3, 2),
    "offset skipped": (record(0) + record(2), 2, 1),
    "offset not from 0": (record(1) + record(2), 2, 0),
    "offset below 0": (record(-1), 1, 0),
    "length below 0": (number(-5) + GOOD, 3, 0),
    "length too large": (number(2**31 - 1) + GOOD, 1, 0),
    "length of the next record as well": (number(2 * len(record(0)) - 1) + (record(0) + record(1))[1:], 1, 0),
    "key too long": (number(5) + b"\0\0\0" + number(2**31 - 1) + b"\0", 1, 0),
    "value of 2^63 - 1 bytes": (number(14) + b"\0\0\0\1" + number(2**63 - 1) + b"\0", 1, 0),
    "value of 2^63 - 40 bytes": (number(14) + b"\0\0\0\1" + number(2**63 - 40) + b"\0", 1, 0),
    "number without an end": (b"\x80" * 40, 1, 0),
    "number of 11 bytes": (number(20) + b"\0" + b"\x80" * 10 + b"\0" * 9, 1, 0),
    "number in more bytes than needed": (b"\x8e\0" + record(0)[1:], 1, 0),
    "headers below 0": (record(0, headers=number(-1)), 1, 0),
    "headers that are not there": (record(0, headers=number(2**31 - 1)), 1, 0),
    "header key below 0": (record(0, headers=number(1) + number(-1) + nullable(b"v")), 1, 0),
    "header key that is no text": (record(0, headers=number(1) + nullable(b"\xff") + nullable(b"v")), 1, 0),
    "header cut off": (record(0, headers=number(1) + number(3) + b"ab"), 1, 0),
    "header value cut off": (record(0, headers=number(1) + nullable(b"k") + number(7) + b"ab"), 1, 0),
}


@pytest.mark.rule("R7.16")
@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_records_are_refused_with_their_index(case: str, codec: int) -> None:
    section, count, index = MALFORMED[case]
    error = refusal(batch(section, count, codec))
    assert error.code is ErrorCode.INVALID_RECORD
    assert [e.batch_index for e in error.record_errors] == [index], error
    assert f"record {index} of {count}: " in error.why


@pytest.mark.rule("R7.16")
@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_compression_is_refused(codec: int) -> None:
    error = refusal(encode_batch(GOOD, 3, attributes=codec))
    assert error.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.rule("R7.16")
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("garbage", [b"", b"garbage", bytes(100), b"\xff" * 100])
def test_garbage_in_a_compressed_batch_is_refused(codec: int, garbage: bytes) -> None:
    error = refusal(encode_batch(garbage, 3, attributes=codec))
    assert error.code is ErrorCode.INVALID_RECORD
    assert "cannot be decompressed" in error.why or "record 0" in error.why


@pytest.mark.rule("R7.16")
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_bytes_behind_the_compressed_records_are_refused(codec: int) -> None:
    compressed = ENCODERS[codec](GOOD)
    for rest in (b"\0", b"x" * 30):
        assert refusal(encode_batch(compressed + rest, 3, attributes=codec)).code is ErrorCode.INVALID_RECORD
    assert refusal(encode_batch(compressed[:-1], 3, attributes=codec)).code is ErrorCode.INVALID_RECORD


@pytest.mark.rule("R7.16")
def test_what_kafkas_reader_of_lz4_does_not_read_is_refused() -> None:
    frame = lz4_encode(GOOD)
    assert refusal(encode_batch(frame + frame, 6, attributes=3)).code is ErrorCode.INVALID_RECORD
    dependent = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=True)
    dependent.compress(GOOD)
    assert "depend on one another" in refusal(encode_batch(bytes(dependent.finish()), 3, attributes=3)).why


@pytest.mark.rule("R7.17")
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_decompresses_to_too_much_is_too_large(codec: int) -> None:
    section = record(0, bytes(3 << 20))
    records = batch(section, 1, codec)
    assert check_client_batch(records, ANY, NOW_MS, len(section)) == records
    error = refusal(records, limit=len(section) - 1)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "klamm.max.decompressed.batch.bytes" in error.why


@pytest.mark.rule("R7.2")
def test_what_the_header_may_not_say() -> None:
    assert refusal(encode_batch(GOOD, 3, attributes=0x08)).code is ErrorCode.INVALID_TIMESTAMP
    assert refusal(encode_batch(GOOD, 3, attributes=0x20)).code is ErrorCode.INVALID_RECORD


@pytest.mark.rule("R7.2")
def test_the_timestamp_of_every_record_counts_and_each_that_is_outside_is_named() -> None:
    config = LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10)
    builder = new_builder(0)
    for offset, timestamp in enumerate((NOW_MS, NOW_MS - 11, NOW_MS + 10, NOW_MS + 11)):
        builder.append(offset, timestamp, None, b"v", [])
    error = refusal(bytes(builder.build()), config)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [e.batch_index for e in error.record_errors] == [1, 3]
    unknown = encode_client_batch(b"v", 3)
    assert check_client_batch(unknown, config, NOW_MS, LIMIT) == unknown


@pytest.mark.rule("R7.16")
def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    section = record(0, key=b"k") + record(1) + record(2)
    for policy in ("compact", "compact,delete"):
        error = refusal(batch(section, 3), LogConfig(cleanup_policy=policy))
        assert (error.code, error.meter) == (ErrorCode.INVALID_RECORD, NO_KEY_METER)
        assert [e.batch_index for e in error.record_errors] == [1, 2]
    check_client_batch(batch(section, 3), LogConfig(), NOW_MS, LIMIT)


@pytest.mark.rule("R7.2")
def test_a_refusal_names_a_hundred_records_at_most() -> None:
    error = refusal(encode_client_batch(b"v", 5000), LogConfig(cleanup_policy="compact"))
    assert len(error.record_errors) == 100


@pytest.mark.rule("R7.16")
def test_the_max_timestamp_is_that_of_the_records() -> None:
    right = encode_client_batch(b"v", 3, timestamp=NOW_MS)
    for wrong in (-1, 0, NOW_MS + 10**9):
        claimed = sealed(right[:35] + struct.pack(">q", wrong) + right[43:])
        assert parse_header(claimed).max_timestamp == wrong
        assert check_client_batch(claimed, ANY, NOW_MS, LIMIT) == right
    assert check_client_batch(right, ANY, NOW_MS, LIMIT) is right


# Any batch of aiokafka's builder

keys = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4)
contents = st.lists(st.tuples(st.integers(0, 2**45), keys, st.none() | st.binary(max_size=60), headers), min_size=1)


def new_builder(codec: int) -> Any:
    return DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )


def built(codec: int, records: list[Any]) -> bytes:
    builder = new_builder(codec)
    for offset, (timestamp, key, value, its_headers) in enumerate(records):
        builder.append(offset, timestamp, key, value, its_headers)
    return bytes(builder.build())


@pytest.mark.rule("R7.16")
@given(st.sampled_from(sorted(ENCODERS)), contents)
def test_what_aiokafka_builds_is_accepted_as_it_is(codec: int, records: list[Any]) -> None:
    whole = built(codec, records)
    assert check_client_batch(whole, ANY, NOW_MS, LIMIT) == whole
    assert len(read_client_batch(whole)) == len(records)


edits = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["flip", "set", "drop", "insert"]), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


def edit(data: bytes, changes: list[tuple[int, str, int]]) -> bytes:
    out = bytearray(data)
    for position, kind, value in changes:
        at = position % max(1, len(out))
        if kind == "insert":
            out.insert(at, value)
        elif out:
            if kind == "drop":
                del out[at]
            else:
                out[at] = value if kind == "set" else out[at] ^ (1 << value % 8)
    return bytes(out)


def accepts(whole: bytes) -> bool:
    """Whether it is accepted; anything but LogAppendError is a failure of the test."""
    try:
        check_client_batch(whole, ANY, NOW_MS, LIMIT)
    except LogAppendError as error:
        return not error.why
    return True


def reference_accepts(whole: bytes) -> bool:
    try:
        read_client_batch(whole)
    except RefusedError:
        return False
    return True


@pytest.mark.rule("R7.16")
@examples(250, deep=1000)
@given(st.sampled_from(sorted(ENCODERS)), contents, edits)
def test_what_is_accepted_after_a_change_the_plain_reader_reads_too(
    codec: int, records: list[Any], changes: list[tuple[int, str, int]]
) -> None:
    whole = built(codec, records)
    anywhere = sealed(whole[:21] + edit(whole[21:], changes))
    section = b"".join(encoded(offset, r) for offset, r in enumerate(records))
    inside = batch(edit(section, changes), len(records), codec)
    for changed in (anywhere, inside):
        assert not accepts(changed) or reference_accepts(changed)


def encoded(offset: int, record: tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]) -> bytes:
    timestamp, key, value, its_headers = record
    tail = number(len(its_headers)) + b"".join(nullable(k.encode()) + nullable(v) for k, v in its_headers)
    body = b"\0" + number(timestamp) + number(offset) + nullable(key) + nullable(value) + tail
    return number(len(body)) + body


@pytest.mark.rule("R7.16")
@examples(200, deep=500)
@given(st.binary(max_size=80), st.integers(1, 5))
@example(b"\x10\x80\0\0\1\2v\0\0", 1)
def test_any_bytes_are_read_as_the_plain_reader_reads_them_or_refused(section: bytes, count: int) -> None:
    try:
        walked = list(walk_records(memoryview(section), count))
    except MalformedRecordsError:
        return
    expected = read_records(section, count)
    assert [t for part in walked for t in part.timestamps] == [r.timestamp_delta for r in expected]
    assert [k for part in walked for k in part.keys] == [r.key for r in expected]


# Batches of several windows

sizes = st.lists(
    st.sampled_from([0, 1, 100, 1000, WINDOW // 2, WINDOW - 20, WINDOW - 9, WINDOW, WINDOW + 1, 3 * WINDOW]), max_size=6
)


@pytest.mark.rule("R7.16")
@examples(50, deep=150)
@given(sizes, st.integers(0, 3), st.integers(0, 6), edits)
def test_records_are_read_across_windows(
    large: list[int], small: int, place: int, changes: list[tuple[int, str, int]]
) -> None:
    values = [bytes(20)] * (small * 2000)
    values[place:place] = [bytes(size) for size in large]
    section = b"".join(record(offset, value, b"k") for offset, value in enumerate(values))
    walked = list(walk_records(memoryview(section), len(values))) if values else []
    assert [t for part in walked for t in part.timestamps] == [0] * len(values)
    assert [part.first_index for part in walked] == sorted({part.first_index for part in walked})
    if values:
        for data, count in ((section, len(values) + 1), (section, len(values) - 1), (section + b"\0", len(values))):
            if count == 0:
                continue
            with pytest.raises(MalformedRecordsError):
                list(walk_records(memoryview(data), count))
        spread = [(position * 7919, kind, value) for position, kind, value in changes]
        changed = edit(section, spread)
        try:
            list(walk_records(memoryview(changed), len(values)))
        except MalformedRecordsError:
            return
        read_records(changed, len(values))


@pytest.mark.rule("R7.16")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (number(WINDOW // 2) + b"\0\0" * (WINDOW // 2), f"its headers take {WINDOW + 3} bytes"),
        (number(-1), "its headers: .*number of record headers"),
        (number(1) + nullable(b"\xff\xfe") + nullable(None), "its headers: .*UTF-8"),
        (number(1) + number(-1) + nullable(None), "its headers: .*negative"),
        (number(1) + number(2**40) + nullable(None), "its headers: "),
        (number(0) + b"\0", "its headers: "),
        (b"\x80\0", "its headers: .*more bytes than it needs"),
        (b"", "claims to end"),
    ],
)
def test_a_large_record_is_read_as_strictly(content: bytes, why: str) -> None:
    section = record(0) + record(1, bytes(WINDOW), headers=content) + record(2)
    with pytest.raises(MalformedRecordsError, match=why) as caught:
        list(walk_records(memoryview(section), 3))
    assert caught.value.index == 1


@pytest.mark.rule("R7.16")
def test_a_large_record_may_have_headers_and_no_key() -> None:
    some = number(2) + nullable("ключ".encode()) + nullable(None) + nullable(b"k") + nullable(b"v")
    section = record(0, bytes(WINDOW), headers=some) + record(1, bytes(WINDOW), b"key")
    assert [part.keys for part in walk_records(memoryview(section), 2)] == [(None,), (b"",)]


def test_the_header_says_how_long_the_prefix_is() -> None:
    assert FROM_CHECKSUM.size + 21 == HEADER_SIZE
