"""Finds records of a stored batch by their timestamps: the first one since a time, or that with the largest. Pure.

Offsets within a batch may have gaps, where it was compacted. Source: Kafka FileRecords.searchForTimestamp, RecordBatch
.offsetOfMaxTimestamp; KIP-734.
"""

from collections.abc import Iterator
from typing import NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from broker_agent.log.record_batch import FROM_CHECKSUM, HEADER_SIZE, UP_TO_CHECKSUM, parse_header
from cluster.model.broker import Offset
from cluster.model.compression import CODEC_MASK, CompressionError, decompress, find_codec
from cluster.model.errors import ErrorCode, LogAppendError


class TimedRecord(NamedTuple):
    """The timestamp of a record, in ms since 1970, and its offset."""

    timestamp: int
    offset: Offset


def find_first_record(batch: bytes, timestamp: int, log_start: Offset, decompressed_max: int) -> TimedRecord | None:
    """The first record at or after `log_start` with this timestamp or a later one; None if the batch has none.

    `decompressed_max`: the most bytes to which the records may decompress. Raises LogAppendError for a batch that
    cannot be read.
    """
    found = (record for record in _records(batch, log_start, decompressed_max) if record.timestamp >= timestamp)
    return next(found, None)


def find_newest_record(batch: bytes, log_start: Offset, decompressed_max: int) -> TimedRecord | None:
    """The first record with the largest timestamp at or after `log_start`; None if the batch has none. Takes and raises
    what `find_first_record` does.
    """
    return max(_records(batch, log_start, decompressed_max), key=lambda record: record.timestamp, default=None)


def _records(batch: bytes, log_start: Offset, decompressed_max: int) -> Iterator[TimedRecord]:
    header = parse_header(batch)
    codec = find_codec(header.attributes)
    try:
        if codec is None:
            raise CompressionError(f"the attributes {header.attributes:#06x} name no known compression")
        section = decompress(codec, memoryview(batch)[HEADER_SIZE:], decompressed_max)
        plain = UP_TO_CHECKSUM.pack(*header[:5]) + FROM_CHECKSUM.pack(header.attributes & ~CODEC_MASK, *header[6:])
        for record in DefaultRecordBatch(plain + bytes(section)):
            if record.offset >= log_start:
                yield TimedRecord(record.timestamp, Offset(record.offset))
    except (CompressionError, CorruptRecordException, UnicodeDecodeError, MemoryError, OverflowError) as error:
        why = f"the batch at offset {header.base_offset} cannot be read: {error}"
        raise LogAppendError(ErrorCode.CORRUPT_MESSAGE, why) from None
