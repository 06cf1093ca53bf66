"""Finds the record of a stored batch that has the largest timestamp. Pure.

Offsets within a batch may have gaps, where it was compacted. Source: Kafka RecordBatch.offsetOfMaxTimestamp; KIP-734.
"""

from typing import NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from broker_agent.log.record_batch import FROM_CHECKSUM, HEADER_SIZE, UP_TO_CHECKSUM, parse_header
from cluster.model.broker import Offset
from cluster.model.compression import CODEC_MASK, CompressionError, decompress, find_codec
from cluster.model.errors import ErrorCode, LogAppendError


class NewestRecord(NamedTuple):
    """The first record with the largest timestamp."""

    timestamp: int
    offset: Offset


def find_newest_record(batch: bytes, log_start: Offset, decompressed_max: int) -> NewestRecord | None:
    """The first record with the largest timestamp at or after `log_start`; None if the batch has none.

    `decompressed_max`: the most bytes to which the records may decompress. Raises LogAppendError for a batch that
    cannot be read.
    """
    header = parse_header(batch)
    codec = find_codec(header.attributes)
    try:
        if codec is None:
            raise CompressionError(f"the attributes {header.attributes:#06x} name no known compression")
        section = decompress(codec, memoryview(batch)[HEADER_SIZE:], decompressed_max)
        plain = UP_TO_CHECKSUM.pack(*header[:5]) + FROM_CHECKSUM.pack(header.attributes & ~CODEC_MASK, *header[6:])
        newest: NewestRecord | None = None
        for record in DefaultRecordBatch(plain + bytes(section)):
            is_newer = newest is None or record.timestamp > newest.timestamp
            if is_newer and record.offset >= log_start:
                newest = NewestRecord(record.timestamp, Offset(record.offset))
    except (CompressionError, CorruptRecordException, UnicodeDecodeError, MemoryError, OverflowError) as error:
        why = f"the batch at offset {header.base_offset} cannot be read: {error}"
        raise LogAppendError(ErrorCode.CORRUPT_MESSAGE, why) from None
    return newest
