"""Encodes record batches for simulations and benchmarks: any header with opaque records, and those of a client."""

import zlib

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from broker_agent.log.record_batch import (
    CHECKSUM_START,
    FROM_CHECKSUM,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    UP_TO_CHECKSUM,
    crc32c,
)
from cluster.model.compression import CompressionCodec


def encode_batch(
    records: bytes,
    record_count: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    base_timestamp: int = NO_TIMESTAMP,
    max_timestamp: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """A batch with an already encoded records section; `record_count` must be positive."""
    assert record_count > 0, record_count
    covered = (
        FROM_CHECKSUM.pack(
            attributes,
            record_count - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )
        + records
    )
    length = CHECKSUM_START - LENGTH_END + len(covered)
    return UP_TO_CHECKSUM.pack(base_offset, length, leader_epoch, MAGIC, crc32c(covered)) + covered


def encode_records(value: bytes, count: int) -> bytes:
    """The records section of a batch: `count` records of the same value and time, without keys."""
    builder = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        batch_size=(1 << 31) - 1,
    )
    for number in range(count):
        builder.append(number, 0, None, value, [])
    return bytes(builder.build()[HEADER_SIZE:])


def encode_client_batch(
    value: bytes,
    count: int = 1,
    *,
    timestamp: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    gzip: bool = False,
) -> bytes:
    """A batch as a client sends it: `count` records of the same value and time."""
    records = encode_records(value, count)
    return encode_batch(
        zlib.compress(records, wbits=16 + zlib.MAX_WBITS) if gzip else records,
        count,
        attributes=CompressionCodec.GZIP if gzip else CompressionCodec.NONE,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
