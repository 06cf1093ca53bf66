"""What a leader answers to data requests: leader epochs, acknowledgements, waiting fetches.

Source: Kafka Partition.checkCurrentLeaderEpoch, DelayedProduce, DelayedFetch, ProduceRequest.validateRecords.
"""

from typing import Final

from cluster.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset
from cluster.errors import ErrorCode

ACKS_ALL: Final = -1
VALID_ACKS: Final = (-1, 0, 1)
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})

_LENGTH_END: Final = 12
_MAGIC_AT: Final = 16


def judge_leader_epoch(requested: LeaderEpoch, current: LeaderEpoch) -> ErrorCode:
    """Compare the leader epoch a caller believes in with the one held here; -1 passes (R6.3)."""
    if requested in (NO_LEADER_EPOCH, current):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if requested < current else ErrorCode.UNKNOWN_LEADER_EPOCH


def judge_record_set(records: bytes) -> ErrorCode:
    """Whether it is one record batch of version 2, told from lengths and the magic byte alone (R7.2).

    A batch that is cut short is left to the log's own validation, which calls it corrupt.
    """
    if not records:
        return ErrorCode.INVALID_RECORD
    if len(records) <= _MAGIC_AT:
        return ErrorCode.NONE
    size = _LENGTH_END + int.from_bytes(records[8:_LENGTH_END], "big", signed=True)
    is_one_batch = records[_MAGIC_AT] == 2 and size >= len(records)
    return ErrorCode.NONE if is_one_batch else ErrorCode.INVALID_RECORD


def judge_acknowledgement(
    *, high_watermark: Offset, required_offset: Offset, maximal_isr_size: int, min_isr: int
) -> ErrorCode | None:
    """Whether a produce with acks=-1 is answered now, and how; None: still pending (R7.12)."""
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
"""Not counted by FailedProduceRequestsPerSec: they belong to normal operation."""

UNREMARKABLE_FETCH_ERRORS: Final = UNREMARKABLE_PRODUCE_ERRORS | {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
