import json
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from audit.source import LogRanges, StateChangeReader, rows_of
from state_log.chain import ChainSegment
from state_log.record import CHAIN_START, Kind, Stamper, StateChange, line_digest
from tests.state_change_histories import draw, write_logs

ALL = ReadAllAvailable()


def reader(*directories: Path, tasks: int = 2) -> StateChangeReader:
    return StateChangeReader(directories, max_bytes=1 << 20, tasks=tasks)


def taken(source: StateChangeReader, start: dict[str, int], end: dict[str, int]) -> list[bytes]:
    """The bytes that a batch covers, cut at its lines."""
    lines = []
    for share in source.partitions(start, end):
        assert isinstance(share, LogRanges)
        for name, first, last in share.ranges:
            block = Path(name).read_bytes()[first:last]
            assert block.endswith(b"\n")
            lines += block.splitlines()
    return lines


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_line_is_taken_exactly_once_however_the_files_grow(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("logs")
    source, offset, seen, written = reader(directory), {}, [], []
    for number in range(data.draw(st.integers(1, 8), "appends")):
        path = directory / f"n-1700000000000.1-{data.draw(st.integers(0, 2)):020d}.jsonl"
        line = b"%d" % number * data.draw(st.integers(1, 40), "length")
        cut = data.draw(st.integers(0, len(line)), "torn at")
        with path.open("ab") as file:
            file.write(line[:cut])
            file.flush()
            limit = data.draw(st.sampled_from([ALL, ReadMaxBytes(1), ReadMaxBytes(30)]))
            end = source.latestOffset(offset, limit)
            seen += taken(source, offset, end)
            offset = end
            file.write(line[cut:] + b"\n")
        written.append(line)
    while (end := source.latestOffset(offset, ReadMaxBytes(7))) != offset:
        seen += taken(source, offset, end)
        offset = end
    assert sorted(seen) == sorted(written)


def test_a_torn_tail_is_left_until_its_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"whole\nto")
    source = reader(tmp_path)
    first = source.latestOffset({}, ALL)
    assert first == {str(path): 6}
    assert source.latestOffset(first, ALL) == first
    assert source.partitions(first, first) == []
    path.write_bytes(b"whole\ntorn\n")
    assert source.latestOffset(first, ALL) == {str(path): 11}


def test_a_limited_batch_takes_an_older_segment_whole_before_it_begins_the_next(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"12345\n" * 10)
    first = reader(tmp_path).latestOffset({}, ReadMaxBytes(70))
    assert first == {str(tmp_path / "a.jsonl"): 60, str(tmp_path / "b.jsonl"): 6}


def test_an_available_now_batch_ends_where_the_files_ended_when_it_began(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n")
    source = reader(tmp_path)
    source.prepareForTriggerAvailableNow()
    path.write_bytes(b"1\n2\n")
    assert source.latestOffset({}, ALL) == {str(path): 2}


def test_deleted_segments_are_forgotten_but_not_those_whose_folder_is_out_of_sight(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    gone, hidden = str(tmp_path / "seen" / "a.jsonl"), str(tmp_path / "unmounted" / "b.jsonl")
    assert reader(tmp_path).latestOffset({gone: 5, hidden: 7}, ALL) == {hidden: 7}


def test_work_is_spread_over_the_tasks_by_size() -> None:
    shares = reader(tasks=2).partitions({"a": 5}, {"a": 10, "b": 40, "c": 30, "d": 5})
    assert [share.ranges for share in shares] == [[("b", 0, 40)], [("c", 0, 30), ("a", 5, 10), ("d", 0, 5)]]


def test_a_line_becomes_a_row_of_its_partition_and_part_of_a_segment(tmp_path: Path) -> None:
    changes = [StateChange(kind=Kind.ISR, topic="a/b", partition=3), StateChange(kind=Kind.BROKER, broker=1)]
    lines = Stamper("n", "1700000000000.1").stamp(changes, 1)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    rows = list(rows_of(path, 0, path.stat().st_size))
    segment = ChainSegment("n", "1700000000000.1", 0, 1, CHAIN_START, line_digest(lines[1]))
    assert rows == [
        ("partition/a/b/3", lines[0]),
        ("incarnation/n/1700000000000.1", msgspec.json.encode(segment)),
    ]


def test_a_line_that_is_no_record_goes_to_quarantine_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\nab\xff\n")
    rows = [(key, json.loads(value)) for key, value in rows_of(path, 0, 7)]
    assert [key for key, _ in rows] == [f"quarantine/{path}"] * 2
    assert [(row["offset"], row["line"]) for _, row in rows] == [(0, "{}"), (3, "ab\\xff")]


def test_start_states_reach_each_partition_of_their_topic(tmp_path: Path) -> None:
    paths = write_logs(draw(Random(1).getrandbits(32), steps=0, partitions=3).logs, tmp_path)
    keys = [key for path in paths.values() for key, _ in rows_of(path, 0, path.stat().st_size)]
    assert [key for key in keys if key.startswith("partition/")] == [f"partition/orders/{n}" for n in range(3)]
    assert "controller-epochs" in keys
