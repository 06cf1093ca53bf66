import pytest

from broker_agent.decisions.data_requests import (
    check_acknowledgement,
    name_refusal_meter,
    repeated_partitions,
    validate_leader_epoch,
    validate_record_set,
)
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import ListOffsetsPartition
from simulator.record_batches import encode_batch

BATCH = encode_batch(b"records", 1)


@pytest.mark.rule("R6.3")
@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-1, ErrorCode.NONE),
        (5, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_an_older_epoch_is_fenced_and_a_newer_one_unknown(requested: int, expected: ErrorCode) -> None:
    assert validate_leader_epoch(LeaderEpoch(requested), LeaderEpoch(5)) is expected


@pytest.mark.rule("R7.2")
@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (BATCH, ErrorCode.NONE),
        (b"", ErrorCode.INVALID_RECORD),
        (BATCH + BATCH, ErrorCode.INVALID_RECORD),
        (BATCH[:16] + b"\x01" + BATCH[17:], ErrorCode.INVALID_RECORD),
        (BATCH[:-1], ErrorCode.NONE),  # Cut short: the log calls it corrupt.
        (BATCH[:10], ErrorCode.NONE),
        (BATCH + b"?", ErrorCode.INVALID_RECORD),
        (BATCH[:8] + b"\0\0\0\x30" + BATCH[12:], ErrorCode.NONE),  # Shorter than its bytes: corrupt as well.
        (BATCH[:8] + b"\xff" * 4 + BATCH[12:], ErrorCode.NONE),
    ],
)
def test_a_record_set_is_one_batch_of_version_two(records: bytes, expected: ErrorCode) -> None:
    assert validate_record_set(records) is expected


@pytest.mark.rule("R7.2")
@pytest.mark.parametrize(
    ("code", "records", "meter"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, BATCH, "BytesRejectedPerSec"),
        (ErrorCode.CORRUPT_MESSAGE, BATCH[:10], "InvalidMessageCrcRecordsPerSec"),
        (ErrorCode.INVALID_RECORD, BATCH[:16] + b"\1" + BATCH[17:], "InvalidMagicNumberRecordsPerSec"),
        (ErrorCode.INVALID_RECORD, BATCH[:57] + bytes(4) + BATCH[61:], "InvalidOffsetOrSequenceRecordsPerSec"),
        (ErrorCode.INVALID_RECORD, encode_batch(b"", 1, producer_id=1), "InvalidOffsetOrSequenceRecordsPerSec"),
        (ErrorCode.INVALID_RECORD, encode_batch(b"", 1, producer_id=1, base_sequence=0), None),
        (ErrorCode.INVALID_RECORD, encode_batch(b"", 1, base_offset=7), None),
        (ErrorCode.INVALID_RECORD, encode_batch(b"", 1, attributes=0x20), None),
        (ErrorCode.INVALID_RECORD, b"", None),
        (ErrorCode.RECORD_LIST_TOO_LARGE, BATCH, None),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, BATCH, None),
    ],
)
def test_each_kind_of_refusal_has_its_own_meter(code: ErrorCode, records: bytes, meter: str | None) -> None:
    assert name_refusal_meter(code, records) == meter


@pytest.mark.rule("R7.12")
@pytest.mark.parametrize(
    ("high_watermark", "isr_size", "expected"),
    [
        (41, 2, ErrorCode.NONE),
        (50, 3, ErrorCode.NONE),
        (41, 1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (40, 2, None),
        (40, 1, None),
    ],
)
def test_an_append_is_acknowledged_when_the_high_watermark_passed_it_with_enough_replicas(
    high_watermark: int, isr_size: int, expected: ErrorCode | None
) -> None:
    result = check_acknowledgement(
        high_watermark=Offset(high_watermark), required_offset=Offset(41), maximal_isr_size=isr_size, min_isr=2
    )
    assert result is expected


def test_repeated_partitions_are_those_that_stand_more_than_once() -> None:
    items = [ListOffsetsPartition("t", partition, -1) for partition in (0, 1, 0, 2, 0)]
    assert repeated_partitions(items) == {("t", 0)}
