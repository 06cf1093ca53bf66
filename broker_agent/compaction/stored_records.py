"""The records of a stored batch: read with their places, so that those that stay are copied as they are.

Keys and timestamps are read, values and headers are not looked into. Source: Kafka DefaultRecord.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

_SEVEN_BITS: Final = 0x7F


class UncleanableBatchError(Exception):
    """A stored batch cannot be read, so that its log cannot be cleaned."""


class StoredRecord(NamedTuple):
    """One record in the records of a batch, from `start` up to `end`; timestamp and offset relative to the batch's.

    `rest`: where the fields behind the timestamp begin.
    """

    start: int
    rest: int
    end: int
    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def read_records(section: bytes, count: int) -> Iterator[StoredRecord]:
    """Read `count` records, which are all of `section`, one after another: there may be very many. Raises
    UncleanableBatchError, after the records before the fault.
    """
    position = 0
    for number in range(count):
        try:
            record = _read_record(section, position)
        except IndexError:
            raise UncleanableBatchError(f"record {number} of {count} is cut off") from None
        position = record.end
        yield record
    if position != len(section):
        raise UncleanableBatchError(f"{count} records end at byte {position} of {len(section)}")


def read_run(section: bytes, start: int, end: int) -> Iterator[StoredRecord]:
    """Read the records from byte `start` up to `end`, which were read before."""
    while start < end:
        record = _read_record(section, start)
        start = record.end
        yield record


def _read_record(section: bytes, start: int) -> StoredRecord:
    # Numbers of one byte, which most are, are read here: this is what most of a cleaning's time goes to.
    byte, position = section[start], start + 1
    if byte > _SEVEN_BITS:
        byte, position = _continue(section, position, byte)
    end = position + ((byte >> 1) ^ -(byte & 1))
    attributes = section[position]
    byte, position = section[position + 1], position + 2
    if byte > _SEVEN_BITS:
        byte, position = _continue(section, position, byte)
    timestamp_delta, rest = (byte >> 1) ^ -(byte & 1), position
    byte, position = section[position], position + 1
    if byte > _SEVEN_BITS:
        byte, position = _continue(section, position, byte)
    offset_delta = (byte >> 1) ^ -(byte & 1)
    byte, position = section[position], position + 1
    if byte > _SEVEN_BITS:
        byte, position = _continue(section, position, byte)
    key = None
    if not byte & 1:
        key = section[position : position + (byte >> 1)]
        position += byte >> 1
    has_value = not section[position] & 1
    if position >= end or end > len(section):
        raise UncleanableBatchError(f"the record at byte {start} claims to end at byte {end}")
    return StoredRecord(start, rest, end, attributes, timestamp_delta, offset_delta, key, has_value)


def _continue(section: bytes, position: int, byte: int) -> tuple[int, int]:
    """Read the rest of a number of several bytes; returns it, still zigzag, and the position behind it."""
    value, shift = byte & _SEVEN_BITS, 7
    while True:
        byte = section[position]
        position += 1
        value |= (byte & _SEVEN_BITS) << shift
        if byte <= _SEVEN_BITS:
            return value, position
        shift += 7


def with_base_moved(section: bytes, record: StoredRecord, distance: int) -> bytes:
    """Encode the record for a batch whose base timestamp is `distance` ms later: its own timestamp stays."""
    delta = _encode_number(record.timestamp_delta - distance)
    body = bytes((record.attributes,)) + delta + section[record.rest : record.end]
    return _encode_number(len(body)) + body


def _encode_number(number: int) -> bytes:
    rest, encoded = (number << 1) if number >= 0 else ((-number << 1) - 1), bytearray()
    while rest > _SEVEN_BITS:
        encoded.append(rest & _SEVEN_BITS | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
