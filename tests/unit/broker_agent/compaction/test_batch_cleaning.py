"""What stays of one batch."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.consuming.record_batches import Record, build_batches, decode_records
from broker_agent.compaction.batch_cleaning import CleanedBatch, CleaningRound, clean_batch
from broker_agent.compaction.offset_map import OffsetMap
from broker_agent.compaction.stored_records import UncleanableBatchError, read_records, with_base_moved
from broker_agent.decisions.cleaned_transactions import CleanedTransactions
from broker_agent.log.record_batch import HEADER_SIZE, BatchHeader, encode_with_records, find_damage, parse_header
from cluster.model.broker import Offset
from cluster.model.compression import CompressionCodec
from tests.brokers.compacted_logs import keyed_batch, marker_batch

NOW = 1_000_000
RETENTION = 500
EVERY_CODEC = pytest.mark.parametrize("codec", list(CompressionCodec))


def newest(latest: int = 10**6, **offsets: int) -> OffsetMap:
    found = OffsetMap(1000)
    for key, offset in offsets.items():
        found.put(key.encode(), Offset(offset))
    found.latest = Offset(latest)
    return found


def cleaned(
    batch: bytes,
    offsets: OffsetMap,
    *,
    now_ms: int = NOW,
    must_stay: bool = False,
    transactions: CleanedTransactions | None = None,
    producer_ends: dict[int, Offset] | None = None,
) -> CleanedBatch:
    cleaning = CleaningRound(offsets, transactions or CleanedTransactions(), producer_ends or {}, now_ms, RETENTION)
    return clean_batch(parse_header(batch), memoryview(batch), cleaning, must_stay=must_stay)


def records_of(found: CleanedBatch) -> list[tuple[int, int, str | None, str | None]]:
    assert found.batch is not None
    batch = bytes(found.batch)
    header = parse_header(batch)
    assert find_damage(header, batch) is None
    assert header.record_count == found.record_count
    decoded = decode_records(batch, Offset(header.base_offset)).records
    return [(r.offset, r.timestamp, r.key and r.key.decode(), r.value and r.value.decode()) for r in decoded]


def header_of(found: CleanedBatch) -> BatchHeader:
    assert found.batch is not None
    return parse_header(found.batch)


@pytest.mark.rule("R10.21")
@EVERY_CODEC
def test_of_each_key_the_newest_record_stays_with_its_offset_and_timestamp(codec: CompressionCodec) -> None:
    batch = keyed_batch([("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")], codec=codec, base_offset=100, leader_epoch=7)
    found = cleaned(batch, newest(a=102, b=200, c=103))
    assert records_of(found) == [(102, 1002, "a", "3"), (103, 1003, "c", "4")]
    header, before = header_of(found), parse_header(batch)
    assert header.base_offset == 100
    assert header.last_offset == 103
    assert header.leader_epoch == 7
    assert header.max_timestamp == 1003
    assert header.attributes == before.attributes == codec


@pytest.mark.rule("R10.21")
def test_the_largest_timestamp_is_that_of_what_stays() -> None:
    found = cleaned(keyed_batch([("a", "1"), ("b", "2")]), newest(a=0, b=5))
    assert header_of(found).max_timestamp == 1000
    # Of batches with the time of their append it is the time of all records.
    appended = keyed_batch([("a", "1"), ("b", "2")], attributes=0x08, max_timestamp=7777)
    assert header_of(cleaned(appended, newest(a=0, b=5))).max_timestamp == 7777


@pytest.mark.rule("R10.21")
@EVERY_CODEC
def test_a_batch_of_which_everything_stays_is_not_touched(codec: CompressionCodec) -> None:
    batch = keyed_batch([("a", "1"), ("b", "2")], codec=codec)
    assert cleaned(batch, newest(a=0, b=1)).batch == batch
    assert cleaned(batch, newest()).batch == batch


@pytest.mark.rule("R10.21")
def test_a_batch_of_which_nothing_stays_is_gone() -> None:
    assert cleaned(keyed_batch([("a", "1"), ("b", "2")]), newest(a=5, b=6)) == CleanedBatch(None, 0)


@pytest.mark.rule("R10.21")
def test_records_without_a_key_are_gone_and_counted() -> None:
    found = cleaned(keyed_batch([(None, "1"), ("b", "2"), (None, "3")]), newest())
    assert records_of(found) == [(1, 1001, "b", "2")]
    assert found.without_key == 2
    assert cleaned(keyed_batch([(None, "1")]), newest()) == CleanedBatch(None, 0, 1)


@pytest.mark.rule("R10.23")
def test_records_behind_what_the_map_covers_stay_whatever_they_are() -> None:
    batch = keyed_batch([("a", "1"), ("a", "2"), ("a", "3"), (None, "4")], base_offset=10)
    found = cleaned(batch, newest(latest=11, a=11))
    assert [offset for offset, *_ in records_of(found)] == [11, 12, 13]


@pytest.mark.rule("R10.25")
@EVERY_CODEC
def test_a_tombstone_gets_a_horizon_when_it_is_first_cleaned_and_goes_after_it(codec: CompressionCodec) -> None:
    batch = keyed_batch([("a", None), ("b", "2")], codec=codec, base_offset=50)
    offsets = newest(a=50, b=51)
    first = cleaned(batch, offsets)
    assert records_of(first) == [(50, 1000, "a", None), (51, 1001, "b", "2")]
    assert header_of(first).delete_horizon_ms == NOW + RETENTION
    assert header_of(first).max_timestamp == 1001
    assert first.batch is not None
    again = bytes(first.batch)
    assert cleaned(again, offsets, now_ms=NOW + RETENTION - 1).batch == again
    last = cleaned(again, offsets, now_ms=NOW + RETENTION)
    assert records_of(last) == [(51, 1001, "b", "2")]
    # It is the horizon of the batch: a later one would keep other tombstones for longer than they need.
    assert header_of(last).delete_horizon_ms == NOW + RETENTION


@pytest.mark.rule("R10.25")
def test_a_tombstone_that_is_not_the_newest_goes_at_once() -> None:
    assert records_of(cleaned(keyed_batch([("a", None), ("a", "1")]), newest(a=1))) == [(1, 1001, "a", "1")]


@pytest.mark.rule("R10.26")
def test_the_batch_with_a_producers_last_sequence_stays_without_its_records() -> None:
    batch = keyed_batch(
        [("a", "1"), ("b", "2")],
        codec=CompressionCodec.GZIP,
        base_offset=5,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=1,
        base_sequence=40,
    )
    found = cleaned(batch, newest(a=99, b=99), producer_ends={9: Offset(6)})
    header, before = header_of(found), parse_header(batch)
    assert records_of(found) == []
    assert len(found.batch or b"") == HEADER_SIZE
    for field in (
        "base_offset",
        "last_offset",
        "leader_epoch",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "last_sequence",
    ):
        assert getattr(header, field) == getattr(before, field), field
    assert (header.attributes, header.base_timestamp) == (0, -1)
    again = cleaned(bytes(found.batch or b""), newest(), producer_ends={9: Offset(6)})
    assert again == found
    # Once the producer has written another batch, or has expired, nothing is left.
    assert cleaned(bytes(found.batch or b""), newest(), producer_ends={9: Offset(60)}).batch is None
    assert cleaned(batch, newest(a=99, b=99), producer_ends={}).batch is None


@pytest.mark.rule("R10.26")
def test_the_batch_at_the_end_of_a_segment_stays_without_its_records() -> None:
    found = cleaned(keyed_batch([("a", "1")], base_offset=5), newest(a=99), must_stay=True)
    assert (header_of(found).record_count, header_of(found).last_offset) == (0, 5)


@pytest.mark.rule("R10.27")
def test_aborted_records_go_whatever_their_keys() -> None:
    transactions = CleanedTransactions()
    transactions.add_batch(9, Offset(0))
    transactions.add_marker(9, Offset(2), is_abort=True)
    batch = keyed_batch([("a", "1"), ("b", "2")], attributes=0x10, producer_id=9, producer_epoch=0, base_sequence=0)
    assert cleaned(batch, newest(), transactions=transactions).batch is None
    kept = cleaned(batch, newest(), transactions=transactions, producer_ends={9: Offset(1)})
    assert header_of(kept).is_transactional
    assert header_of(kept).record_count == 0
    committed = CleanedTransactions()
    committed.add_batch(9, Offset(0))
    committed.add_marker(9, Offset(2), is_abort=False)
    assert cleaned(batch, newest(), transactions=committed).batch == batch


@pytest.mark.rule("R10.27")
@pytest.mark.parametrize("commits", [False, True])
def test_a_marker_stays_as_long_as_its_transaction_and_then_as_a_tombstone_does(commits: bool) -> None:
    marker = marker_batch(9, commits=commits, offset=20)
    alive, outlived = CleanedTransactions(), CleanedTransactions()
    alive.add_batch(9, Offset(0))
    alive.add_marker(9, Offset(20), is_abort=not commits)
    outlived.add_marker(9, Offset(20), is_abort=not commits)
    assert cleaned(marker, newest(), transactions=alive).batch == marker
    first = cleaned(marker, newest(), transactions=outlived)
    assert (header_of(first).record_count, header_of(first).delete_horizon_ms) == (1, NOW + RETENTION)
    again = bytes(first.batch or b"")
    assert find_damage(parse_header(again), again) is None
    assert cleaned(again, newest(), transactions=outlived, now_ms=NOW + RETENTION - 1).batch == again
    assert cleaned(again, newest(), transactions=outlived, now_ms=NOW + RETENTION).batch is None
    stays = cleaned(again, newest(), transactions=outlived, now_ms=NOW + RETENTION, must_stay=True)
    assert header_of(stays).is_control
    assert header_of(stays).record_count == 0


def test_what_cannot_be_read_is_an_error_that_says_why() -> None:
    batch = keyed_batch([("a", "1")])
    header = parse_header(batch)
    for damaged, why in (
        (encode_with_records(header._replace(attributes=5), batch[HEADER_SIZE:]), "no known compression"),
        (encode_with_records(header._replace(attributes=1), b"no gzip"), "gzip"),
        (encode_with_records(header._replace(record_count=2), batch[HEADER_SIZE:]), "record 1 of 2 is cut off"),
        (encode_with_records(header, batch[HEADER_SIZE:] + b"\0"), "1 records end at byte"),
        (encode_with_records(header, b"\x02" + batch[HEADER_SIZE + 1 :]), "claims to end"),
    ):
        with pytest.raises(UncleanableBatchError, match=why):
            cleaned(damaged, newest(a=5))


RECORDS = st.lists(
    st.tuples(
        st.integers(-(2**40), 2**40),
        st.one_of(st.none(), st.binary(max_size=200)),
        st.one_of(st.none(), st.binary(max_size=200)),
        st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(RECORDS, st.sampled_from(CompressionCodec), st.integers(0, 2**41))
def test_records_are_read_where_they_are_and_keep_their_timestamps_when_the_base_moves(
    records: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    codec: CompressionCodec,
    distance: int,
) -> None:
    written = [Record(Offset(0), timestamp, key, value, headers) for timestamp, key, value, headers in records]
    [batch] = build_batches(written, 1 << 20)
    header, section = parse_header(batch), batch[HEADER_SIZE:]
    found = list(read_records(section, len(records)))
    assert [(r.offset_delta, r.key, r.has_value) for r in found] == [
        (number, key, value is not None) for number, (_, key, value, _) in enumerate(records)
    ]
    assert b"".join(section[r.start : r.end] for r in found) == section
    moved = b"".join(with_base_moved(section, record, distance) for record in found)
    rebuilt = encode_with_records(header._replace(base_timestamp=header.base_timestamp + distance), moved)
    assert decode_records(rebuilt, Offset(0)).records == decode_records(batch, Offset(0)).records


@pytest.mark.rule("R10.23")
@pytest.mark.parametrize("value", ["v", None])
@pytest.mark.parametrize("kept_of_two", [0, 1])
def test_the_memory_for_a_batch_goes_by_its_bytes_and_not_by_its_records(value: str | None, kept_of_two: int) -> None:
    count = 10_000
    batch = keyed_batch([(f"{number:05}", value) for number in range(count)])
    offsets = OffsetMap(count)
    for number in range(count):
        offsets.put(f"{number:05}".encode(), Offset(number if number % 2 < kept_of_two else 10**6))
    tracemalloc.start()
    try:
        found = cleaned(batch, offsets)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.record_count == kept_of_two * count // 2
    assert peak < 6 * len(batch)
