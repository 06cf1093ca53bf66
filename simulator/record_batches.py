"""Record batches as a producer of simulations and benchmarks sends them: any header round opaque records."""

from broker_agent.log.record_batch import (
    CHECKSUM_START,
    FROM_CHECKSUM,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    UP_TO_CHECKSUM,
    crc32c,
)


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
    """A batch round an already encoded records region; `record_count` must be positive."""
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
