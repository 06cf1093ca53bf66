"""Validation of data requests on the leader: leader epochs, record sets, acknowledgements.

Source: Kafka Partition.checkCurrentLeaderEpoch, DelayedProduce, DelayedFetch, ProduceRequest.validateRecords.
"""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from broker_agent.log.record_batch import HEADER_SIZE, MAGIC, MAGIC_AT, NO_PRODUCER_ID, find_damage, parse_header
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import ListOffsetsPartition

ACKS_ALL: Final = -1
VALID_ACKS: Final = (-1, 0, 1)
BYTES_REJECTED: Final = "BytesRejectedPerSec"
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


def repeated_partitions(items: Sequence[ListOffsetsPartition]) -> AbstractSet[tuple[str, int]]:
    """The partitions that a request names more than once. Source: Kafka ListOffsetsRequest.duplicatePartitions."""
    return {key for key, count in Counter((item.topic, item.partition) for item in items).items() if count > 1}


def validate_leader_epoch(requested: LeaderEpoch, current: LeaderEpoch) -> ErrorCode:
    """Compare the leader epoch of a request with the current one; -1 is not checked (R6.3)."""
    if requested in (NO_LEADER_EPOCH, current):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if requested < current else ErrorCode.UNKNOWN_LEADER_EPOCH


def validate_record_set(records: bytes) -> ErrorCode:
    """Check that the record set is exactly one record batch of version 2 (R7.2).

    Truncated or corrupt batches are left to the log's own validation, which reports them as corrupt. Bytes after the
    end given by the length field therefore count as a second batch only if the first one is intact.
    """
    if not records or records[MAGIC_AT : MAGIC_AT + 1] not in (b"", bytes([MAGIC])):
        return ErrorCode.INVALID_RECORD
    if len(records) < HEADER_SIZE:
        return ErrorCode.NONE
    header = parse_header(records)
    if header.size >= len(records) or find_damage(header, memoryview(records)[: max(0, header.size)]) is not None:
        return ErrorCode.NONE
    return ErrorCode.INVALID_RECORD


def name_refusal_meter(code: ErrorCode, records: bytes) -> str | None:
    """The BrokerTopicMetrics meter for the reason why these records were refused, if there is one."""
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        return BYTES_REJECTED
    if code is ErrorCode.CORRUPT_MESSAGE:
        return "InvalidMessageCrcRecordsPerSec"
    if code is not ErrorCode.INVALID_RECORD or not records:
        return None
    if records[MAGIC_AT] != MAGIC:
        return "InvalidMagicNumberRecordsPerSec"
    header = parse_header(records)
    has_wrong_count = header.record_count <= 0 or header.record_count != header.last_offset_delta + 1
    has_no_sequence = header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0
    return "InvalidOffsetOrSequenceRecordsPerSec" if has_wrong_count or has_no_sequence else None


def check_acknowledgement(
    *, high_watermark: Offset, required_offset: Offset, maximal_isr_size: int, min_isr: int
) -> ErrorCode | None:
    """The code to answer a produce with acks=-1 with; None while it is pending (R7.12)."""
    if high_watermark < required_offset:
        return None
    return ErrorCode.NONE if min_isr <= maximal_isr_size else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


UNREMARKABLE_PRODUCE_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Not counted by FailedProduceRequestsPerSec: these errors are part of normal operation."""

UNREMARKABLE_FETCH_ERRORS: Final = UNREMARKABLE_PRODUCE_ERRORS | {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
