"""Positions in logs by node and incarnation, and the bytes between two of them."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.reading.log_files import START, LogFiles, Position, Range, advance, ends, line_end, ranges
from state_log.writer import SegmentName
from tests.examples import examples

A, B = "broker-1-1700000000000.1", "broker-2-1700000000000.1"


def segment(directory: Path, log: str, first_seq: int, content: bytes) -> Path:
    node, _, incarnation = log.rpartition("-")
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / str(SegmentName(node, incarnation, first_seq))
    path.write_bytes(content)
    return path


def positions(files: LogFiles, start: dict[str, Position], budget: int | None = None) -> dict[str, Position]:
    return advance(start, ends(files.logs(), start), budget)


def read(parts: list[Range]) -> bytes:
    return b"".join(part.path.read_bytes()[part.first : part.end] for part in parts)


def test_a_torn_tail_is_left_until_its_line_is_whole(tmp_path: Path) -> None:
    path = segment(tmp_path, A, 0, b"whole\nto")
    files = LogFiles([tmp_path])
    first = positions(files, {})
    assert first == {A: Position(0, 6)}
    assert positions(files, first) == first
    assert ranges(files.logs(), first, first) == []
    path.write_bytes(b"whole\ntorn\n")
    assert positions(files, first) == {A: Position(0, 11)}


@pytest.mark.parametrize("lines", [(10, 10), (10, 50), (400, 40), (900, 70)])
def test_logs_of_any_sizes_are_read_side_by_side_and_end_together(tmp_path: Path, lines: tuple[int, int]) -> None:
    for log, count in zip((A, B), lines, strict=True):
        segment(tmp_path, log, 0, b"12345\n" * count)
    files, taken, batches = LogFiles([tmp_path]), dict[str, Position](), 0
    while ends(files.logs(), taken):
        parts = [taken.get(log, START).byte / (6 * count) for log, count in zip((A, B), lines, strict=True)]
        # A batch has whole lines of each log.
        assert abs(parts[0] - parts[1]) <= 2 / min(lines)
        taken, batches = positions(files, taken, 6 * sum(lines) // 5), batches + 1
    assert batches <= 8


def test_a_log_with_little_left_is_read_to_its_end_soon_beside_a_long_backlog(tmp_path: Path) -> None:
    segment(tmp_path, A, 0, b"12345\n" * 10_000)
    segment(tmp_path, B, 0, b"12345\n" * 3)
    assert positions(LogFiles([tmp_path]), {}, 640) == {A: Position(0, 636), B: Position(0, 18)}


def test_a_limited_batch_takes_an_older_segment_whole_before_it_begins_the_next(tmp_path: Path) -> None:
    for first_seq in (0, 10):
        segment(tmp_path, A, first_seq, b"12345\n" * 10)
    files = LogFiles([tmp_path])
    assert positions(files, {}, 70) == {A: Position(10, 6)}
    assert positions(files, {}, 62) == {A: Position(0, 60)}
    assert [(part.first, part.end) for part in ranges(files.logs(), {}, {A: Position(10, 6)})] == [(0, 60), (0, 6)]


def test_a_line_that_is_longer_than_the_share_of_its_log_is_taken_all_the_same(tmp_path: Path) -> None:
    segment(tmp_path, A, 0, b"x" * 100 + b"\nnext\n")
    assert positions(LogFiles([tmp_path]), {}, 10) == {A: Position(0, 101)}


@pytest.mark.parametrize("moved_to", ["elsewhere", "logs/deeper"])
def test_a_folder_that_was_moved_is_the_same_log(tmp_path: Path, moved_to: str) -> None:
    segment(tmp_path / "logs" / "node", A, 0, b"1\n2\n")
    taken = positions(LogFiles([tmp_path]), {})
    (tmp_path / moved_to).mkdir(parents=True)
    shutil.move(tmp_path / "logs" / "node", tmp_path / moved_to / "node")
    segment(tmp_path / moved_to / "node", A, 0, b"1\n2\n3\n")
    files = LogFiles([tmp_path])
    assert read(ranges(files.logs(), taken, positions(files, taken))) == b"3\n"


def test_of_copies_of_a_segment_the_longest_is_read(tmp_path: Path) -> None:
    segment(tmp_path / "backup", A, 0, b"1\n")
    whole = segment(tmp_path / "logs", A, 0, b"1\n2\n")
    (of_a,) = LogFiles([tmp_path, tmp_path / "logs"]).logs().values()
    assert [part.path for part in of_a] == [whole]


def test_a_file_that_is_named_otherwise_is_a_log_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "saved.jsonl").write_bytes(b"1\n")
    (tmp_path / "notes.txt").write_bytes(b"1\n")
    (tmp_path / "folder.jsonl").mkdir()
    assert positions(LogFiles([tmp_path]), {}) == {"saved.jsonl": Position(0, 2)}


def test_a_segment_before_the_position_is_not_needed_any_more(tmp_path: Path) -> None:
    sealed = segment(tmp_path, A, 0, b"1\n")
    segment(tmp_path, A, 1, b"2\n")
    files = LogFiles([tmp_path])
    taken = positions(files, {})
    sealed.unlink()
    assert positions(files, taken) == taken
    segment(tmp_path, A, 2, b"3\n")
    assert read(ranges(files.logs(), taken, positions(files, taken))) == b"3\n"


def test_a_log_that_is_out_of_sight_keeps_its_position(tmp_path: Path) -> None:
    away = {A: Position(0, 7)}
    assert positions(LogFiles([tmp_path / "unmounted"]), away) == away


def test_a_file_made_in_the_same_tick_of_the_clock_as_a_listing_is_seen(tmp_path: Path) -> None:
    """The time of a folder has the resolution of the kernel's tick: the same time does not mean the same files."""
    segment(tmp_path, A, 0, b"1\n")
    before = tmp_path.stat()
    files = LogFiles([tmp_path])
    files.logs()
    segment(tmp_path, B, 0, b"1\n")
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert set(files.logs()) == {A, B}


def test_a_line_of_more_than_any_record_has_is_taken_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.reading.log_files.LINE_BYTES_MAX", 8)
    path = segment(tmp_path, A, 0, b"x" * 20 + b"\ny\n")
    assert line_end(path, 0, 4, at_least_until=23) == 12
    taken, cuts = {A: START}, []
    files = LogFiles([tmp_path])
    while (end := positions(files, taken, 4)) != taken:
        cuts.append(end[A].byte)
        taken = end
    assert cuts == [12, 21, 23]


class GrowingLogs:
    """Logs as nodes write them: only the newest segment of each grows, and it may have a torn tail."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.written: list[bytes] = []
        self._seq: dict[str, int] = {}
        self._segment: dict[str, Path] = {}

    def begin_line(self, log: str, *, roll: bool, line: bytes, cut: int) -> None:
        seq = self._seq.get(log, 0)
        if roll or log not in self._segment:
            self._segment[log] = segment(self.top / log, log, seq, b"")
        self._append(log, line[:cut])

    def end_line(self, log: str, line: bytes, cut: int) -> None:
        self._append(log, line[cut:] + b"\n")
        self._seq[log] = self._seq.get(log, 0) + 1
        self.written.append(line)

    def _append(self, log: str, data: bytes) -> None:
        with self._segment[log].open("ab") as file:
            file.write(data)


@examples(40, deep=100)
@given(data=st.data())
def test_every_line_is_taken_exactly_once_and_in_order_however_the_logs_grow(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    logs = GrowingLogs(tmp_path_factory.mktemp("logs"))
    files, taken, seen = LogFiles([logs.top]), dict[str, Position](), list[bytes]()

    def take(budget: int | None) -> bool:
        nonlocal taken
        end = positions(files, taken, budget)
        parts = ranges(files.logs(), taken, end)
        # Spark repeats a batch after a crash, when the logs have grown.
        repeatable.append((taken, end, read(parts)))
        seen.extend(read(parts).splitlines())
        taken, moved = end, end != taken
        return moved

    repeatable: list[tuple[dict[str, Position], dict[str, Position], bytes]] = []
    for number in range(data.draw(st.integers(1, 10), "lines")):
        log = data.draw(st.sampled_from([A, B]), "log")
        line = b"%s:%d:" % (log.encode(), number) + b"x" * data.draw(st.integers(0, 40), "length")
        cut = data.draw(st.integers(0, len(line)), "torn at")
        logs.begin_line(log, roll=data.draw(st.booleans(), "roll"), line=line, cut=cut)
        take(data.draw(st.sampled_from([None, 1, 30, 90]), "budget"))
        logs.end_line(log, line, cut)
    while take(7):
        pass
    assert sorted(seen) == sorted(logs.written)
    for log in (A, B):
        mine = [line for line in seen if line.startswith(log.encode())]
        assert mine == [line for line in logs.written if line.startswith(log.encode())]
    for start, end, content in repeatable:
        assert read(ranges(files.logs(), start, end)) == content
