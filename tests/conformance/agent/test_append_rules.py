"""Appends: what a leader accepts from clients, what a follower accepts from its leader, idempotent producers."""

from contextlib import suppress
from typing import Any

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.producer_state import ProducerStates, decode_snapshot
from broker_agent.log.record_batch import MAX_SEQUENCE, BatchHeader, crc32c, parse_header, walk
from broker_agent.log.record_sets import check_batch_of_client, check_set_of_leader
from broker_agent.requests.client_batches import check_client_batch
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode, LogAppendError
from simulator.record_batches import encode_client_batch
from tests.contract.log_worlds import TP, InMemoryWorld, Node, batch, fetched

NOW_MS = 1_000_000


def damaged(records: bytes, position: int, value: bytes) -> bytes:
    return records[:position] + value + records[position + len(value) :]


def recounted(record_count: int, last_offset_delta: int) -> bytes:
    """A batch whose header says so under a good checksum."""
    records = damaged(batch(), 57, record_count.to_bytes(4, "big", signed=True))
    records = damaged(records, 23, last_offset_delta.to_bytes(4, "big", signed=True))
    return damaged(records, 17, crc32c(records[21:]).to_bytes(4, "big"))


@pytest.mark.rule("R7.2", "R0.1")
@pytest.mark.parametrize(
    ("records", "config", "code"),
    [
        (batch(), LogConfig(max_message_bytes=100), ErrorCode.MESSAGE_TOO_LARGE),
        (b"", LogConfig(), ErrorCode.CORRUPT_MESSAGE),
        (batch()[:60], LogConfig(), ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1], LogConfig(), ErrorCode.CORRUPT_MESSAGE),
        (damaged(batch(), 80, b"X"), LogConfig(), ErrorCode.CORRUPT_MESSAGE),
        (damaged(batch(), 8, b"\0\0\0\5"), LogConfig(), ErrorCode.CORRUPT_MESSAGE),
        (damaged(batch(), 16, b"\1"), LogConfig(), ErrorCode.INVALID_RECORD),
        (batch() + batch(), LogConfig(), ErrorCode.INVALID_RECORD),
        (damaged(batch(), 8, b"\0\0\0\x70"), LogConfig(), ErrorCode.CORRUPT_MESSAGE),
        (damaged(batch() + batch(), 80, b"X"), LogConfig(), ErrorCode.CORRUPT_MESSAGE),
        (batch(base_offset=1), LogConfig(), ErrorCode.INVALID_RECORD),
        (batch(base_offset=-1), LogConfig(), ErrorCode.INVALID_RECORD),
        (recounted(0, 0), LogConfig(), ErrorCode.INVALID_RECORD),
        (recounted(0, -1), LogConfig(), ErrorCode.INVALID_RECORD),
        (recounted(1, 1), LogConfig(), ErrorCode.INVALID_RECORD),
        (recounted(-1, 0), LogConfig(), ErrorCode.INVALID_RECORD),
        (batch(attributes=0x20), LogConfig(), ErrorCode.INVALID_RECORD),
        (batch(producer_id=5), LogConfig(), ErrorCode.INVALID_RECORD),
        (batch(), LogConfig(segment_bytes=100), ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
def test_a_batch_of_a_client_is_refused(records: bytes, config: LogConfig, code: ErrorCode) -> None:
    with pytest.raises(LogAppendError) as caught:
        check_batch_of_client(records, config)
    assert caught.value.code is code


@pytest.mark.rule("R7.5")
async def test_log_append_time_is_stamped_with_a_new_checksum() -> None:
    node = Node(InMemoryWorld(), "/disk/a", config=LogConfig(message_timestamp_type="LogAppendTime"))
    await node.start()
    log = await node.log()
    assert log.append_as_leader(batch(timestamp=1), LeaderEpoch(0), 777).log_append_time_ms == 777
    records = log.read(Offset(0), 1000, Offset(1), at_least_one=True)
    header = parse_header(records)
    assert (header.max_timestamp, header.attributes & 0x08) == (777, 0x08)
    assert len(check_set_of_leader(records, Offset(0), None, LeaderEpoch(0))) == 1


@pytest.mark.rule("R7.2")
@pytest.mark.parametrize(
    ("window", "accepted"),
    [
        ({}, [1, 990, 1000, 1010, 10**12]),
        ({"message_timestamp_before_max_ms": 10}, [990, 1000, 1010, 10**12]),
        ({"message_timestamp_after_max_ms": 10}, [1, 990, 1000, 1010]),
        ({"message_timestamp_difference_max_ms": 10}, [990, 1000, 1010]),
        ({"message_timestamp_difference_max_ms": 10, "message_timestamp_after_max_ms": 0}, [990, 1000]),
        ({"message_timestamp_difference_max_ms": 0, "message_timestamp_before_max_ms": 2000}, [1, 990, 1000]),
        (
            {"message_timestamp_before_max_ms": 0, "message_timestamp_type": "LogAppendTime"},
            [1, 990, 1000, 1010, 10**12],
        ),
    ],
)
def test_a_timestamp_may_be_so_far_before_and_so_far_after_now(window: dict[str, Any], accepted: list[int]) -> None:
    config, found = LogConfig(**window), []
    for timestamp in (1, 990, 1000, 1010, 10**12):
        with suppress(LogAppendError):
            check_client_batch(encode_client_batch(b"r", timestamp=timestamp), config, 1000, 1000)
            found.append(timestamp)
    assert found == accepted
    check_client_batch(encode_client_batch(b"r", timestamp=-1), config, 1000, 1000)


@pytest.mark.rule("R10.6", "R10.7")
@pytest.mark.parametrize(
    ("records", "code"),
    [
        (damaged(fetched(10, epoch=1), 80, b"X"), ErrorCode.CORRUPT_MESSAGE),
        (fetched(10, epoch=1) + damaged(fetched(11, epoch=1), 16, b"\1"), ErrorCode.CORRUPT_MESSAGE),
        (damaged(fetched(10, epoch=1), 8, b"\0\0\0\5"), ErrorCode.CORRUPT_MESSAGE),
        (fetched(9, epoch=1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (fetched(10, 5, epoch=1) + fetched(14, epoch=1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (fetched(10, epoch=0), ErrorCode.UNKNOWN_SERVER_ERROR),
        (fetched(10, epoch=2) + fetched(11, epoch=1), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_fetched_set_that_does_not_fit_leaves_the_log_as_it_was(records: bytes, code: ErrorCode) -> None:
    node = Node(InMemoryWorld(), "/disk/a")
    await node.start()
    log = await node.log()
    log.append_as_follower(fetched(0, 10, epoch=1), LeaderEpoch(1))
    with pytest.raises(LogAppendError) as caught:
        log.append_as_follower(records, LeaderEpoch(9))
    assert caught.value.code is code
    assert (log.log_end_offset, log.latest_epoch, len(list(log.batches()))) == (10, 1, 1)


@pytest.mark.rule("R10.7")
async def test_a_batch_that_begins_before_offset_0_is_refused_by_an_empty_log() -> None:
    node = Node(InMemoryWorld(), "/disk/a")
    await node.start()
    log = await node.log()
    with pytest.raises(LogAppendError, match="base offset -1 is below 0"):
        log.append_as_follower(fetched(-1, 3, epoch=1), LeaderEpoch(1))
    assert log.log_end_offset == 0


@pytest.mark.rule("R10.7")
async def test_an_empty_log_restarts_inside_the_batch_in_which_the_leader_starts() -> None:
    node = Node(InMemoryWorld(), "/disk/a")
    await node.start()
    log = await node.log()
    log.truncate_fully_and_start_at(Offset(105))
    log.append_as_follower(fetched(100, 10, epoch=2), LeaderEpoch(2))
    assert (log.log_start_offset, log.log_end_offset) == (100, 110)
    assert log.epoch_entries == ((2, 100),)


@pytest.mark.rule("R10.8", "R7.2")
async def test_a_fetched_set_larger_than_a_segment_is_spread_over_several() -> None:
    node = Node(InMemoryWorld(), "/disk/a", config=LogConfig(segment_bytes=400))
    await node.start()
    log = await node.log()
    records = b"".join(fetched(number) for number in range(10))
    assert log.append_as_follower(records, LeaderEpoch(0)).valid_bytes == len(records)
    names = [name for name in node.world.new_disk().list_directory(log.path) if name.endswith(".log")]
    assert names == [f"{base:020d}.log" for base in (0, 2, 4, 6, 8)]
    assert [header.base_offset for _, header in walk(log.read(Offset(4), 9999, Offset(10), at_least_one=True))] == [
        4,
        5,
    ]


def sent(sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0) -> BatchHeader:
    fields = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence, "base_offset": offset}
    return parse_header(batch(count, **fields))


@pytest.mark.rule("R7.6")
@pytest.mark.parametrize(
    ("header", "outcome"),
    [
        (sent(6, 2, epoch=1), None),
        (sent(4, 2, epoch=1), 104),
        (sent(5, 1, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (sent(7, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (sent(0, epoch=2), None),
        (sent(6, epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (sent(6, epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_sequence_numbers_of_a_known_producer(header: BatchHeader, outcome: ErrorCode | int | None) -> None:
    states = ProducerStates()
    for number in (0, 2, 4):
        states.update(sent(number, 2, epoch=1, offset=100 + number))
    if isinstance(outcome, ErrorCode):
        with pytest.raises(LogAppendError) as caught:
            states.find_duplicate(header)
        assert caught.value.code is outcome
        return
    duplicate = states.find_duplicate(header)
    assert (None if duplicate is None else duplicate.first_offset) == outcome


@pytest.mark.rule("R7.6", "R7.8")
def test_five_batches_are_remembered_the_number_after_the_largest_is_zero_and_snapshots_keep_it() -> None:
    states = ProducerStates()
    for number in range(6):
        states.update(sent(number, offset=number))
    snapshot = decode_snapshot(states.encode())
    assert snapshot is not None
    for known in (states, snapshot):
        assert known.find_duplicate(sent(1)) is not None
        with pytest.raises(LogAppendError):
            known.find_duplicate(sent(0))
    states.update(sent(MAX_SEQUENCE))
    assert states.find_duplicate(sent(0)) is None
    assert decode_snapshot(states.encode()[:-1]) is None
    states.expire(now_ms=100, expiration_ms=10)
    assert states.find_duplicate(sent(77)) is None


@pytest.mark.parametrize("earlier", [b"[" * 5000, b'{"7":[["\xff"]]}', b"{"])
def test_a_snapshot_whose_end_is_no_list_of_batches_is_ignored(earlier: bytes) -> None:
    content = (0).to_bytes(4, "big") + earlier
    assert decode_snapshot((1).to_bytes(2, "big") + crc32c(content).to_bytes(4, "big") + content) is None


@pytest.mark.rule("R7.7", "R7.8")
async def test_followers_learn_producers_and_truncation_forgets_what_it_cut() -> None:
    node = Node(InMemoryWorld(), "/disk/a")
    await node.start()
    log = await node.log(tp=TP)
    for number in range(4):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number * 3}
        log.append_as_follower(fetched(number, epoch=1, **fields), LeaderEpoch(1))
    log.truncate_to(Offset(2))
    again = log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=3), LeaderEpoch(2), NOW_MS)
    assert (again.duplicate, again.first_offset) == (True, 1)
    fresh = log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=4), LeaderEpoch(2), NOW_MS)
    assert (fresh.duplicate, fresh.first_offset) == (False, 2)
