"""Reads the records of a client's batch strictly, with aiokafka's compiled reader.

That reader is fast (about 0.1 µs a record) and lenient: it checks lengths against the end of its input only, reads the
attributes of a record as a number of variable length, takes numbers that are encoded in more bytes than they need, and
builds every header of a record before it returns. So it gets the records in windows, copied into `bytes` of their own
(which end in a zero, where a number that is cut off ends), and what it read has to have, encoded as Kafka's clients
encode it, exactly the size of what it was given. This leaves one way to read the bytes, and bounds the memory of one
window. Of a record larger than its window, key and value are skipped here without a copy.

Source: Kafka DefaultRecord.readFrom, DefaultRecordBatch.iterator; LogValidator.
"""

from collections.abc import Iterator
from itertools import starmap
from operator import attrgetter
from typing import Final, NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from broker_agent.log.record_batch import FROM_CHECKSUM, MAGIC, UP_TO_CHECKSUM

WINDOW: Final = 128 * 1024
"""Most bytes that are read at a time: 5 MB of headers without content, and a few ms of the interpreter's lock."""
_SMALLEST_WINDOW: Final = 4096
_WINDOW_RECORDS: Final = 200
"""Records of a window where all have one size. With more, Python's collector runs in between and takes most of the
time.
"""
_INT32_MAX: Final = 2**31 - 1
_EMPTY_RECORD: Final = b"\0\0\0\1\1"
"""Attributes, timestamp and offset deltas of 0, neither key nor value."""

_fields = attrgetter("offset", "timestamp", "key", "value", "headers")


_Fields = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class MalformedRecordsError(Exception):
    """The records of a batch are malformed at record `index` (from 0)."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index, self.why = index, why


class Walked(NamedTuple):
    """Consecutive records: the index of the first, timestamps relative to the batch's base timestamp, and keys."""

    first_index: int
    timestamps: tuple[int, ...]
    keys: tuple[bytes | None, ...]
    """Of a record larger than a window: None, or b"" whatever its key is."""


def walk_records(section: memoryview, count: int) -> Iterator[Walked]:
    """Read all of `section`, which must be exactly `count` records, one at least, with the offset deltas 0, 1, 2 ….

    Raises MalformedRecordsError.
    """
    position = index = 0
    window = min(WINDOW, max(_SMALLEST_WINDOW, _WINDOW_RECORDS * len(section) // count))
    while len(section) - position > window and index < count:
        whole, size = _read_whole_records(section[position : position + window], count - index)
        if whole:
            # The size is an estimate until this proves that the window ends where its last record does.
            walked = _read_exactly(section[position : position + size], index, whole)
            position += size
        else:
            walked, position = _read_large_record(section, position, index)
        yield walked
        index += len(walked.timestamps)
    if index < count:
        yield _read_exactly(section[position:], index, count - index)
    elif position < len(section):
        raise MalformedRecordsError(index, f"{len(section) - position} bytes follow the {count} records")


def _open(window: memoryview, count: int) -> DefaultRecordBatch:
    """A batch of its own, so that offsets and timestamps are the deltas as they stand in the records."""
    start = UP_TO_CHECKSUM.pack(0, 0, 0, MAGIC, 0) + FROM_CHECKSUM.pack(0, 0, 0, 0, -1, -1, -1, count)
    return DefaultRecordBatch(start + bytes(window))


def _read(window: memoryview, count: int) -> tuple[list[_Fields], str | None]:
    """The fields of the records that can be read, and what is wrong behind them."""
    records: list[_Fields] = []
    try:
        # Extended by all records before the first malformed one.
        records.extend(map(_fields, _open(window, count)))
    except CorruptRecordException as error:
        return records, str(error)
    except UnicodeDecodeError:
        return records, "the key of a header is not UTF-8"
    except (MemoryError, OverflowError):
        return records, "a length is larger than the batch"
    return records, None


def _read_whole_records(window: memoryview, count: int) -> tuple[int, int]:
    """The number of whole records, and their size if they are encoded as they should be."""
    records, _ = _read(window, count)
    return len(records), _encoded_size(records)


def _read_exactly(window: memoryview, first_index: int, count: int) -> Walked:
    records, fault = _read(window, count)
    if fault is not None:
        raise MalformedRecordsError(first_index + min(len(records), count - 1), fault)
    if _encoded_size(records) != len(window):
        raise MalformedRecordsError(first_index, "a number takes more bytes than it needs")
    offsets, timestamps, keys, _, _ = zip(*records, strict=True)
    expected = tuple(range(first_index, first_index + count))
    if offsets != expected:
        index, found = next((i, o) for i, o in zip(expected, offsets, strict=True) if i != o)
        raise MalformedRecordsError(index, f"its offset delta is {found}")
    return Walked(first_index, timestamps, keys)


def _new_measure() -> DefaultRecordBatchBuilder:
    """A builder that measures records; it takes timestamps as deltas once it has one of 0."""
    builder = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=_INT32_MAX,
    )
    builder.append(0, 0, None, None, [])
    return builder


_measure: Final = _new_measure().size_in_bytes


def _encoded_size(records: list[_Fields]) -> int:
    return sum(starmap(_measure, records))


def _read_large_record(section: memoryview, position: int, index: int) -> tuple[Walked, int]:
    """Read one record that does not fit its window, without a copy of its content; returns its end as well."""
    reader = _Reader(section, position, index)
    length = reader.read_number()
    if not 0 <= length <= len(section) - reader.position:
        raise MalformedRecordsError(index, f"it claims {length} bytes, {len(section) - reader.position} are left")
    end = reader.position + length
    reader.skip(1)
    timestamp, offset = reader.read_number(), reader.read_number()
    if offset != index:
        raise MalformedRecordsError(index, f"its offset delta is {offset}")
    has_key = reader.skip_nullable()
    reader.skip_nullable()
    _check_headers(section, reader.position, end, index)
    return Walked(index, (timestamp,), (b"" if has_key else None,)), end


def _check_headers(section: memoryview, start: int, end: int, index: int) -> None:
    """Check that `start` to `end` are the headers of a record, by reading a record that has nothing else."""
    if end - start > WINDOW:
        raise MalformedRecordsError(index, f"its headers take {end - start} bytes, more than {WINDOW}")
    if end <= start:
        raise MalformedRecordsError(index, f"it claims to end at byte {end}, its value at byte {start}")
    body = _EMPTY_RECORD + bytes(section[start:end])
    try:
        _read_exactly(memoryview(_encode_length(len(body)) + body), 0, 1)
    except MalformedRecordsError as error:
        raise MalformedRecordsError(index, f"its headers: {error.why}") from None


def _encode_length(length: int) -> bytes:
    rest, encoded = length << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*encoded, rest))


class _Reader:
    """Reads the fields of one record."""

    def __init__(self, section: memoryview, position: int, index: int) -> None:
        self._section, self.position, self._index = section, position, index

    def read_number(self) -> int:
        """A zigzag number of 7 bits a byte, in as few bytes as it needs."""
        value = shift = 0
        while True:
            if self.position >= len(self._section) or shift > 63:
                raise MalformedRecordsError(self._index, "a number is cut off or has more than 64 bits")
            byte = self._section[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if (byte == 0 and shift > 0) or value >> 64:
            raise MalformedRecordsError(self._index, "a number takes more bytes than it needs")
        return (value >> 1) ^ -(value & 1)

    def skip(self, size: int) -> None:
        if size > len(self._section) - self.position:
            raise MalformedRecordsError(self._index, f"{size} bytes are claimed behind byte {self.position}")
        self.position += size

    def skip_nullable(self) -> bool:
        """Skip a key or value; returns whether there is one."""
        size = self.read_number()
        self.skip(max(0, size))
        return size >= 0
