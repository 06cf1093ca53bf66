"""A reader of record batches in plain Python, written after Kafka's DefaultRecord for comparison, not for speed.

It is as strict as LogValidator about structure, and takes what Kafka takes: numbers in more bytes than they need,
attributes of records, null keys and values by any negative length.
"""

import gzip
import struct
from typing import NamedTuple

import cramjam
import crc32c
from aiokafka.codec import snappy_decode

HEADER = struct.Struct(">qiibIhiqqqhii")


class RefusedError(Exception):
    pass


class ReferenceRecord(NamedTuple):
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def decompressed(codec: int, data: bytes) -> bytes:
    try:
        match codec:
            case 0:
                return data
            case 1:
                return gzip.decompress(data)
            case 2:
                return snappy_decode(data)
            case 3:
                return bytes(cramjam.lz4.decompress(data))
            case 4:
                return bytes(cramjam.zstd.decompress(data))
    except (OSError, EOFError, struct.error, cramjam.DecompressionError, Exception) as error:
        raise RefusedError(str(error)) from None
    raise RefusedError(f"codec {codec}")


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.at:
            raise RefusedError(f"{size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, bits: int) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > bits:
                raise RefusedError("number")
        value &= (1 << bits) - 1
        return (value >> 1) ^ -(value & 1)

    def nullable(self) -> bytes | None:
        size = self.number(32)
        return None if size < 0 else self.take(size)


def read_records(section: bytes, count: int) -> list[ReferenceRecord]:
    source, records = _Bytes(section), []
    for index in range(count):
        size = source.number(32)
        body = _Bytes(source.take(size))
        body.take(1)
        timestamp, offset = body.number(64), body.number(32)
        if offset != index:
            raise RefusedError(f"offset delta {offset} of record {index}")
        key, value, header_count = body.nullable(), body.nullable(), body.number(32)
        if not 0 <= header_count <= len(body.data) - body.at:
            raise RefusedError(f"{header_count} headers")
        headers = tuple((body.take(body.number(32)), body.nullable()) for _ in range(header_count))
        if body.at != size:
            raise RefusedError(f"record {index} has {size} bytes, {body.at} were read")
        records.append(ReferenceRecord(offset, timestamp, key, value, headers))
    if source.at != len(section):
        raise RefusedError(f"{len(section) - source.at} bytes behind the records")
    return records


def read_client_batch(batch: bytes) -> list[ReferenceRecord]:
    """The records of a batch that a leader may accept; RefusedError otherwise."""
    if len(batch) < HEADER.size:
        raise RefusedError("short")
    base, length, _, magic, crc, attributes, last_delta, _, _, producer, _, sequence, count = HEADER.unpack_from(batch)
    if base != 0 or magic != 2 or length + 12 != len(batch) or crc != crc32c.crc32c(batch[21:]):
        raise RefusedError("header")
    if count <= 0 or last_delta != count - 1 or attributes & 0x28 or (producer != -1 and sequence < 0):
        raise RefusedError("header")
    return read_records(decompressed(attributes & 7, batch[HEADER.size :]), count)
