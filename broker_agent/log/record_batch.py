"""Record batch headers, version 2: parse, validate, iterate, set leader fields. Records stay opaque.

No single record is read here: a batch costs one header and one checksum, however many records it has. (A leader reads
those of clients once, in `broker_agent.requests.record_walk`.) All integers are big-endian. Source: Kafka
DefaultRecordBatch; KIP-98.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

import crc32c as _crc32c

from cluster.model.broker import LeaderEpoch, Offset

HEADER_SIZE: Final = 61
MAGIC: Final = 2
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
MAX_SEQUENCE: Final = 0x7FFF_FFFF

LENGTH_END: Final = 12
"""The length field counts the bytes after itself: a batch has `LENGTH_END + length` bytes."""
MAGIC_AT: Final = 16
CHECKSUM_START: Final = 21
"""The checksum covers everything from the attributes on; base offset and leader epoch precede it."""

_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40
_CODEC: Final = 0x07

_HEADER: Final = Struct(">qiibIhiqqqhii")
_EXTENT: Final = Struct(">qi11xi")  # base offset, length, last offset delta
_LEADER_FIELDS: Final = Struct(">qii")  # base offset, length, partition leader epoch
UP_TO_CHECKSUM: Final = Struct(">qiibI")
FROM_CHECKSUM: Final = Struct(">hiqqqhii")

Buffer = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """The fields of a header, in byte order. Timestamps in ms, -1 if unknown."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes, header included."""
        return LENGTH_END + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; numbers wrap from 2147483647 to 0."""
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def has_append_time(self) -> bool:
        """Whether the timestamps are those of the append, not of the producer."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which on the batch's tombstones may go; None until a cleaning has set it, in place of the base
        timestamp (KIP-534).
        """
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None


def crc32c(data: Buffer) -> int:
    """The CRC-32C (Castagnoli), with the processor's instruction if it has one."""
    return _crc32c.crc32c(data)


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Parse the header at `position`; the caller has checked that HEADER_SIZE bytes are there."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def find_damage(header: BatchHeader, batch: Buffer) -> str | None:
    """Say why `batch` cannot be an intact batch, whatever its content: wrong magic, length or checksum; None if it
    can.
    """
    if header.magic != MAGIC:
        return f"magic is {header.magic}, not {MAGIC}"
    if header.size < HEADER_SIZE or header.size != len(batch):
        return f"the length field claims {header.size} bytes, there are {len(batch)}"
    return find_checksum_fault(header, batch)


def find_checksum_fault(header: BatchHeader, batch: Buffer) -> str | None:
    """Say why the checksum of `batch`, of exactly the size in `header`, is wrong; None if it is right."""
    with memoryview(batch) as view, view[CHECKSUM_START:] as covered:
        checksum = crc32c(covered)
    if checksum != header.crc:
        return f"checksum is {checksum:#010x}, the header says {header.crc:#010x}"
    return None


def walk(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of each complete batch from `position` on.

    Ends at the first batch that is truncated or whose length field is too small; checksums are not verified.
    """
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = parse_header(buffer, position)
        if header.size < HEADER_SIZE or header.size > end - position:
            return
        yield position, header
        position += header.size


def whole_batches(buffer: Buffer, upper_bound: int) -> int:
    """The number of bytes at the start of `buffer` that are complete batches ending below `upper_bound` (an offset)."""
    end, position = len(buffer), 0
    unpack = _EXTENT.unpack_from
    while end - position >= HEADER_SIZE:
        base_offset, length, last_offset_delta = unpack(buffer, position)
        after = position + LENGTH_END + length
        if length + LENGTH_END < HEADER_SIZE or after > end or base_offset + last_offset_delta >= upper_bound:
            break
        position = after
    return position


def stamp(batch: Buffer, base_offset: Offset, leader_epoch: LeaderEpoch) -> tuple[bytes, memoryview]:
    """Set base offset and leader epoch: returns the new header start and the rest of the batch, not copied.

    Both fields are outside the checksum, so the producer's checksum stays valid.
    """
    length = int.from_bytes(batch[8:LENGTH_END], "big")
    return _LEADER_FIELDS.pack(base_offset, length, leader_epoch), memoryview(batch)[_LEADER_FIELDS.size :]


def stamp_append_time(batch: Buffer, now_ms: int) -> bytes:
    """The batch with log-append time: MaxTimestamp `now_ms`, the attribute bit set, the checksum recomputed."""
    return _with_timestamp(batch, parse_header(batch).attributes | _LOG_APPEND_TIME, now_ms)


def stamp_max_timestamp(batch: Buffer, timestamp: int) -> bytes:
    """The batch with this MaxTimestamp, the checksum recomputed."""
    return _with_timestamp(batch, parse_header(batch).attributes, timestamp)


def encode_emptied(header: BatchHeader) -> bytes:
    """The batch without its records: offsets, leader epoch, producer, sequence and maximal timestamp stay."""
    attributes = header.attributes & ~(_CODEC | _DELETE_HORIZON)
    return encode_with_records(
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), records=b""
    )


def with_delete_horizon(header: BatchHeader, horizon_ms: int) -> BatchHeader:
    """The header with a delete horizon, to which the timestamps of the records are relative then."""
    return header._replace(attributes=header.attributes | _DELETE_HORIZON, base_timestamp=horizon_ms)


def encode_with_records(header: BatchHeader, records: bytes) -> bytes:
    """Encode a batch with these records; length and checksum are computed, the other fields are as given."""
    length = HEADER_SIZE - LENGTH_END + len(records)
    covered = FROM_CHECKSUM.pack(*header[5:]) + records
    return UP_TO_CHECKSUM.pack(header.base_offset, length, header.leader_epoch, header.magic, crc32c(covered)) + covered


def _with_timestamp(batch: Buffer, attributes: int, max_timestamp: int) -> bytes:
    header = parse_header(batch)
    covered = FROM_CHECKSUM.pack(
        attributes, header.last_offset_delta, header.base_timestamp, max_timestamp, *header[9:]
    ) + bytes(batch[HEADER_SIZE:])
    return UP_TO_CHECKSUM.pack(*header[:4], crc32c(covered)) + covered
