"""Validation of appended records by their headers: a client's batch, and a set fetched from the leader. Pure.

Source: Kafka LogValidator, UnifiedLog.analyzeAndValidateRecords.
"""

from typing import NoReturn

from broker_agent.log.batch_check import Expected, find_header_fault
from broker_agent.log.config import LogConfig
from broker_agent.log.index import MAX_RELATIVE_OFFSET
from broker_agent.log.record_batch import HEADER_SIZE, MAGIC, NO_PRODUCER_ID, BatchHeader, find_damage, parse_header
from broker_agent.log.segment import PlacedBatch
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode, LogAppendError


def check_batch_of_client(records: bytes, config: LogConfig) -> BatchHeader:
    """Validate that `records` is one batch with a valid header and checksum; returns the header.

    What is inside is validated by `broker_agent.requests.client_batches`. Raises LogAppendError.
    """
    size = len(records)
    if size > config.max_message_bytes:
        _refuse(ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes exceed max.message.bytes {config.max_message_bytes}")
    if size < HEADER_SIZE:
        _refuse(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a header")
    header = parse_header(records)
    if header.magic != MAGIC:
        _refuse(ErrorCode.INVALID_RECORD, f"magic is {header.magic}, not {MAGIC}")
    damage = find_damage(header, memoryview(records)[: max(0, header.size)])
    if damage is not None:
        _refuse(ErrorCode.CORRUPT_MESSAGE, damage)
    if header.size < size:
        _refuse(ErrorCode.INVALID_RECORD, "more than one batch")
    if header.base_offset != 0:
        _refuse(ErrorCode.INVALID_RECORD, f"a client's base offset is 0, not {header.base_offset}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        _refuse(
            ErrorCode.INVALID_RECORD, f"{header.record_count} records, but last offset delta {header.last_offset_delta}"
        )
    if header.is_control:
        _refuse(ErrorCode.INVALID_RECORD, "a client may not write control batches")
    if header.is_transactional:
        # Without a coordinator nothing would write its marker, so that nothing behind it could be compacted.
        _refuse(ErrorCode.INVALID_RECORD, "the batch is part of a transaction, and klamm's brokers have none")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        _refuse(ErrorCode.INVALID_RECORD, f"producer {header.producer_id} sent no sequence number")
    if size > config.segment_bytes:
        _refuse(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes exceed segment.bytes {config.segment_bytes}")
    return header


def check_set_of_leader(
    records: bytes, log_end_offset: Offset, latest_epoch: LeaderEpoch | None, max_epoch: LeaderEpoch
) -> list[PlacedBatch]:
    """The batches of a fetched set to append: those before the first that is truncated or above `max_epoch`.

    The first one may start below the log end if it ends above it; the log handles that. Raises LogAppendError:
    CORRUPT_MESSAGE if a batch is malformed (a retry may help), UNKNOWN_SERVER_ERROR if it does not continue this log (a
    retry does not help).
    """
    accepted: list[PlacedBatch] = []
    expected = Expected(log_end_offset, leader_epoch=0 if latest_epoch is None else latest_epoch)
    view, position = memoryview(records), 0
    while len(view) - position >= HEADER_SIZE:
        header = parse_header(view, position)
        if header.size > len(view) - position or header.leader_epoch > max_epoch:
            break
        if not accepted and header.base_offset < log_end_offset <= header.last_offset:
            expected = expected._replace(next_offset=max(0, header.base_offset))
        _check_fetched(header, view[position : position + max(0, header.size)], expected)
        accepted.append(PlacedBatch(position, header))
        expected, position = expected.after(header), position + header.size
    return accepted


def _check_fetched(header: BatchHeader, batch: memoryview, expected: Expected) -> None:
    """Raise LogAppendError unless the batch is valid: what is damaged may arrive intact next time, the rest may not."""
    damage = find_damage(header, batch)
    if damage is not None:
        _refuse(ErrorCode.CORRUPT_MESSAGE, damage)
    fault = find_header_fault(header, expected)
    if fault is not None:
        _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, fault)


def split_for_segments(batches: list[PlacedBatch], segment_bytes: int) -> list[list[PlacedBatch]]:
    """Split into consecutive runs that fit a segment by size and offsets; a larger batch is a run of its own."""
    runs: list[list[PlacedBatch]] = []
    for batch in batches:
        end = batch.position + batch.header.size
        first = runs[-1][0] if runs else batch
        fits_index = batch.header.last_offset - first.header.base_offset <= MAX_RELATIVE_OFFSET
        if runs and end - first.position <= segment_bytes and fits_index:
            runs[-1].append(batch)
        else:
            runs.append([batch])
    return runs


def _refuse(code: ErrorCode, why: str) -> NoReturn:
    raise LogAppendError(code, why)
