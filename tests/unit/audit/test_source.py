"""The streaming source without Spark: how batches are planned, and what becomes of the lines of a task."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from audit.chains.incarnations import Span
from audit.chains.line_digests import packed
from audit.reading.changed_files import ReadFiles
from audit.reading.lines_read import QUARANTINED_MAX, ReadRange
from audit.reading.log_files import Position, Range
from audit.reading.node_work import Work
from audit.reading.source import (
    LINES_ROW,
    ReadPlan,
    StateChangeReader,
    TaskRanges,
    from_stream,
    read_ranges,
    to_stream,
)
from audit.records.columns import to_columns
from state_log.chain import ChainSegment
from state_log.record import CHAIN_START, LINE_BYTES_MAX, Kind, Stamper, StateChange, line_digest
from tests.audits.state_change_histories import draw, stamped, write_logs
from tests.examples import examples

ALL = ReadAllAvailable()
BUCKETS = 4


def reader(*directories: Path, tasks: int = 2) -> StateChangeReader:
    return StateChangeReader(directories, ReadPlan(1 << 20, tasks, BUCKETS), ReadFiles(0))


def of_file(path: Path, first: int = 0, end: int | None = None) -> Range:
    return Range(path.name, path, first, path.stat().st_size if end is None else end)


def rows_by_bucket(records: dict[int, pyarrow.Table]) -> dict[int, list[dict[str, Any]]]:
    return {bucket: rows.to_pylist() for bucket, rows in records.items()}


def decoded(*parts: Range) -> tuple[list[ReadRange], dict[int, pyarrow.Table]]:
    """What became of the lines, and the records by bucket."""
    lines, records = [], {}
    for batch in read_ranges(parts, BUCKETS):
        for row in batch.to_pylist():
            if row["what"] == LINES_ROW:
                assert row["bucket"] == BUCKETS
                lines.append(msgspec.json.decode(row["data"], type=ReadRange))
            else:
                records[row["bucket"]] = from_stream(row["data"])
    return lines, records


def of_partitions(records: dict[int, pyarrow.Table]) -> dict[int, list[dict[str, Any]]]:
    """The records by bucket, without those that every bucket gets; without buckets that have no others."""
    kept = {
        bucket: [row for row in rows if bucket == BUCKETS or row["partition"] is not None]
        for bucket, rows in rows_by_bucket(records).items()
    }
    return {bucket: rows for bucket, rows in kept.items() if rows}


def test_an_available_now_batch_ends_where_the_files_ended_when_it_began(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n")
    source = reader(tmp_path)
    source.prepareForTriggerAvailableNow()
    path.write_bytes(b"1\n2\n")
    (tmp_path / "b.jsonl").write_bytes(b"1\n")
    assert source.latestOffset({}, ALL) == {"a.jsonl": Position(0, 2)}
    assert source.latestOffset({"a.jsonl": Position(0, 2)}, ALL) == {"a.jsonl": Position(0, 2)}


def test_an_available_now_run_goes_on_after_batches_of_limited_size(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"1\n" * 5)
    source = reader(tmp_path)
    source.prepareForTriggerAvailableNow()
    (tmp_path / "a.jsonl").write_bytes(b"1\n" * 50)
    offset, steps = {}, []
    while (end := source.latestOffset(offset, ReadMaxBytes(4))) != offset:
        steps.append({name: position.byte for name, position in end.items()})
        # Spark keeps offsets as JSON.
        offset = json.loads(json.dumps(end))
        assert source.latestOffset(offset, ReadMaxBytes(0)) is not None
        offset = {name: Position(*position) for name, position in offset.items()}
    assert steps[-1] == {"a.jsonl": 10, "b.jsonl": 10}
    assert len(steps) > 2


def test_work_is_spread_over_the_tasks_by_size(tmp_path: Path) -> None:
    for name, lines in (("a", 5), ("b", 40), ("c", 30), ("d", 5)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n" * lines)
    source = reader(tmp_path)
    shares = source.partitions({"a.jsonl": [0, 2]}, source.latestOffset({}, ALL))  # type: ignore[dict-item]
    assert all(isinstance(share, TaskRanges) for share in shares)
    assert [[part.path.stem for part in share.ranges] for share in shares] == [["b"], ["c", "d", "a"]]


def test_records_come_in_buckets_by_partition_and_lines_as_chained_segments(tmp_path: Path) -> None:
    changes = [StateChange(kind=Kind.TRUNCATION, topic="a/b", partition=n % 3) for n in range(6)]
    changes.append(StateChange(kind=Kind.BROKER, broker=1, to_state="live"))
    lines = Stamper("n", "1700000000000.1").stamp(changes, 1)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    (summary,), records = decoded(of_file(path))
    assert summary == ReadRange(
        log="a.jsonl",
        file=str(path),
        end=path.stat().st_size,
        records=7,
        quarantined=0,
        segments=(ChainSegment("n", "1700000000000.1", 0, 6, CHAIN_START, line_digest(lines[-1])),),
        lines=(),
        size=path.stat().st_size,
        work=(Work("n", "1700000000000.1", -1, 7, 0, 6, 1, 1),),
        spans=(Span("n", "1700000000000.1", first_at_ms=1, last_at_ms=1, last_seq=6),),
        modified_ns=path.stat().st_mtime_ns,
        digests=packed(line_digest(line) for line in lines),
    )
    own = of_partitions(records)
    assert [row["seq"] for row in own.pop(BUCKETS)] == [6]
    assert sorted({row["partition"]: bucket for bucket, rows in own.items() for row in rows}) == [0, 1, 2]
    assert sum(map(len, own.values())) == 6
    for bucket, rows in own.items():
        assert all(row["key"] % BUCKETS == bucket for row in rows)
        numbers = [row["seq"] for row in rows]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.LOADED])
def test_every_bucket_gets_what_controllers_say_of_brokers_and_of_themselves(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "a.jsonl"
    (line,) = Stamper("n", "1700000000000.1").stamp([StateChange(kind=kind, broker=1)], 1)
    path.write_bytes(line + b"\n")
    (summary,), records = decoded(of_file(path))
    shared = kind in {Kind.BROKER, Kind.CONTROLLER}
    assert summary.records == 1, "a record counts once, however many buckets get it"
    assert sorted(records) == (list(range(BUCKETS + 1)) if shared else [BUCKETS])
    assert all(rows["seq"].to_pylist() == [0] for rows in records.values())


def test_start_states_reach_each_partition_of_their_topic(tmp_path: Path) -> None:
    paths = write_logs(draw(1, steps=0, partitions=3).logs, tmp_path)
    _, records = decoded(*(of_file(path) for path in paths.values()))
    own = of_partitions(records)
    assert [row["kind"] for row in own.pop(BUCKETS)] == ["controller"]
    loaded = [row for rows in own.values() for row in rows]
    assert sorted((row["topic"], row["partition"]) for row in loaded) == [("orders", n) for n in range(3)]


def test_a_range_that_ends_within_a_file_reads_no_further(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = Stamper("n", "1700000000000.1").stamp([StateChange(kind=Kind.BROKER, broker=1)] * 3, 1)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    first, second = len(lines[0]) + 1, len(lines[0]) + len(lines[1]) + 2
    (summary,), _ = decoded(of_file(path, first, second))
    assert [(segment.first_seq, segment.last_seq) for segment in summary.segments] == [(1, 1)]


def test_a_file_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    (summary,), records = decoded(Range("a", tmp_path / "gone.jsonl", 0, 10))
    assert (summary.records, summary.quarantined, records) == (0, 0, {})


GOOD = Stamper("n", "1700000000000.1").stamp([StateChange(kind=Kind.BROKER, broker=1)], 1)[0]
RECORD = b'{"kind":"isr","v":2,"seq":0,"node":"n","incarnation":"i","at_ms":1,"topic":"t","partition":0,%b}'
HOSTILE = {
    "no JSON": b"not a record",
    "no object": b"[]",
    "an object that is no record": b"{}",
    "invalid UTF-8": b"ab\xff",
    "invalid UTF-8 in a field": RECORD % b'"reason":"\xff"',
    "nested brackets": b"[" * 100_000,
    "nested brackets in a field": RECORD % (b'"x":' + b"[" * 100_000 + b"]" * 100_000),
    "an integer of 65 bits": RECORD % (b'"from_offset":%d' % (1 << 65)),
    "a negative integer of 65 bits": RECORD % (b'"from_offset":-%d' % (1 << 65)),
    "an integer of 5,000 digits": RECORD % (b'"from_offset":' + b"9" * 5000),
    "a leader epoch of 2^40": RECORD % b'"leader_epoch":1099511627776',
    "a fraction": RECORD % b'"leader_epoch":1.5',
    "a number beyond all floats": RECORD % b'"leader_epoch":1e999',
    "a broker of 33 bits in a list": RECORD % b'"isr":[1,4294967296]',
    "too many brokers": RECORD % (b'"isr":[%b]' % b",".join([b"1"] * 10_001)),
    "a text of 20,000 characters": RECORD % (b'"reason":"%b"' % (b"x" * 20_000)),
    "10 MB of garbage": b"x" * (10 << 20),
    "10 MB in one text": RECORD % (b'"reason":"%b"' % (b"x" * (10 << 20))),
    "a newer version": RECORD.replace(b'"v":2', b'"v":3') % b'"x":1',
    "a version of 2^40": RECORD.replace(b'"v":2', b'"v":1099511627776') % b'"x":1',
    "a lone surrogate": RECORD % b'"reason":"\\ud800"',
    "a byte 0": b"\0",
    "two records on a line": GOOD + GOOD,
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_a_line_that_is_no_record_goes_to_quarantine_with_its_place_size_and_reason(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"%b\n%b\n%b\n" % (GOOD, line, GOOD))
    (summary,), records = decoded(of_file(path))
    assert (summary.records, summary.quarantined) == (2, 1)
    (bad,) = summary.lines
    assert (bad.file, bad.offset, bad.size) == (str(path), len(GOOD) + 1, len(line))
    assert 0 < len(bad.why) <= 1000
    assert bad.line.startswith(line[:20].decode("utf-8", "backslashreplace"))
    assert len(bad.line) <= 4000
    assert sum(map(len, of_partitions(records).values())) == 2


@pytest.mark.parametrize("size", [LINE_BYTES_MAX, LINE_BYTES_MAX + 1])
def test_a_line_longer_than_any_record_is_quarantined_for_its_length(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.jsonl"
    padded = GOOD[:-1] + b" " * (size - len(GOOD)) + b"}"
    path.write_bytes(padded + b"\n")
    (summary,), _ = decoded(of_file(path))
    assert (summary.records, summary.quarantined) == ((1, 0) if size <= LINE_BYTES_MAX else (0, 1))
    assert all(str(LINE_BYTES_MAX) in line.why for line in summary.lines)


def test_empty_lines_say_nothing_and_hide_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n\n%b\n\n" % GOOD)
    (summary,), _ = decoded(of_file(path))
    assert (summary.records, summary.quarantined) == (1, 0)


def test_converted_line_ends_are_counted_and_the_chain_holds_without_them(tmp_path: Path) -> None:
    lines = Stamper("n", "1700000000000.1").stamp([StateChange(kind=Kind.BROKER, broker=1)] * 2, 1)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(line + b"\r\n" for line in lines))
    (summary,), _ = decoded(of_file(path))
    assert (summary.records, summary.quarantined, summary.converted, len(summary.segments)) == (2, 0, 2, 1)


def test_of_many_malformed_lines_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"garbage\n" * (QUARANTINED_MAX + 5))
    (summary,), _ = decoded(of_file(path))
    assert (summary.quarantined, len(summary.lines)) == (QUARANTINED_MAX + 5, QUARANTINED_MAX)


@examples(20, deep=50)
@given(data=st.data())
def test_however_lines_are_cut_into_blocks_they_are_the_same_lines(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("blocks")
    cluster = draw(data.draw(st.integers(0, 1000)), steps=10)
    (path,) = (p for i, p in write_logs(cluster.logs, folder).items() if i == cluster.controller)
    lines = path.read_bytes().splitlines()
    for _ in range(data.draw(st.integers(0, 3))):
        lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.sampled_from([b"", b"{}", b"x" * 700])))
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    summaries, records = decoded(of_file(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.reading.lines_read._BLOCK_BYTES", data.draw(st.integers(1, 2000), "block"))
        again, same = decoded(of_file(path))
    assert again == summaries
    assert rows_by_bucket(same) == rows_by_bucket(records)


def test_a_stream_gives_back_the_batches_that_went_into_it() -> None:
    records = [record for stream in stamped(draw(3, steps=20).logs) for record in stream]
    table = from_stream(to_stream(pyarrow.Table.from_batches([to_columns(records[:5]), to_columns(records[5:])])))
    assert table.to_pylist() == to_columns(records).to_pylist()
