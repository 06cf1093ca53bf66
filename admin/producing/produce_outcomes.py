"""What the answer to a batch means: whether another try may help, whether it may be stored, and what is said of it.

Source: Kafka Sender.canRetry, TransactionManager.canRetry.
"""

from typing import Final

from admin.producing.accumulator import AccumulatedBatch
from cluster.model.errors import ApiError, ClusterError, ErrorCode, PeerBusyError, PeerNotConnectedError
from cluster.model.partition import TopicPartition

RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors that another leader, or the same one a little later, may not give."""

NOT_STORED: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""Errors that a leader gives before it appends; after any other the batch may be stored."""

TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def may_be_stored_after(error: ClusterError) -> bool:
    is_before_append = isinstance(error, PeerNotConnectedError | PeerBusyError) or error.code in NOT_STORED
    return not is_before_append


def is_out_of_order(batch: AccumulatedBatch) -> bool:
    return batch.last_error is not None and batch.last_error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def explain(tp: TopicPartition, batch: AccumulatedBatch, error: ClusterError) -> ClusterError:
    """Say what a refused number means to the producer; any other error is returned as it is."""
    if batch.number is None:
        return error
    producer = batch.number.producer
    if error.code is ErrorCode.UNKNOWN_PRODUCER_ID:
        return forgotten(tp, batch)
    if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
        fenced = (
            f"{tp}: this producer, id {producer.id} in epoch {producer.epoch}, is fenced: another"
            " one has stored records under its id in a newer epoch. The records are not stored; later ones get a new id"
        )
        return ApiError(error.code, fenced)
    return error


def unexplained(code: ErrorCode, leader: str) -> str:
    """Say what a refusal without a reason means. `leader`: the name of the node that answered."""
    match code:
        case ErrorCode.REQUEST_TIMED_OUT:
            return f"the leader, {leader}, waited in vain for replicas that are in sync"
        case ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            return f"too few replicas are in sync, says the leader, {leader}"
        case _:
            return f"refused by {leader}"


def forgotten(tp: TopicPartition, batch: AccumulatedBatch) -> ClusterError:
    assert batch.number is not None, "leaders forget numbers"
    return ApiError(
        ErrorCode.UNKNOWN_PRODUCER_ID,
        f"{tp}: the leader no longer knows producer id {batch.number.producer.id}, and an answer to"
        " this batch was lost: it may be stored, and sending it again might store it twice",
    )
