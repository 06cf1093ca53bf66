"""Files that shrink, vanish, change or are empty: said once, and only where something was lost."""

import os
import shutil
from pathlib import Path

import pytest

from audit.reading.changed_files import FaultKind, ReadFiles
from audit.reading.log_files import LogFiles, Position
from audit.report.report import read_findings, read_result
from audit.verification import verify_logs
from state_log.record import Kind, Stamper, StateChange
from state_log.writer import parse_segment_name
from tests.audits.log_audits import FolderAudit, audit_folder

OLD, NEW = "1700000000000.1", "1700000060000.1"


def write_run(folder: Path, node: str, incarnation: str, segments: int = 3, records: int = 5) -> list[Path]:
    """The segments of one run of a node."""
    folder.mkdir(parents=True, exist_ok=True)
    stamper, paths = Stamper(node, incarnation), []
    for _ in range(segments):
        first = stamper.next_seq
        at_ms = int(incarnation[:13]) + first
        lines = stamper.stamp([StateChange(kind=Kind.REGISTRATION, to_state="registered")] * records, at_ms)
        paths.append(folder / f"{node}-{incarnation}-{first:020}.jsonl")
        paths[-1].write_bytes(b"".join(line + b"\n" for line in lines))
    return paths


def findings_after(change: object, tmp_path: Path) -> dict[str, int]:
    """What is found after a log has been read, changed, and looked at twice."""
    audit = FolderAudit(tmp_path / "logs", tmp_path / "output")
    audit.read()
    assert read_result(tmp_path / "output").verdict == "clean"
    assert callable(change)
    change()
    audit.read()
    audit.read()
    return read_result(tmp_path / "output").findings


def test_a_log_that_shrank_is_found_once(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "logs", "broker-1", OLD)
    found = findings_after(lambda: os.truncate(paths[-1], 100), tmp_path)
    assert found == {"log-shrank": 1}
    (finding,) = read_findings(tmp_path / "output", 10)
    assert "has 100 bytes" in finding["message"]


def test_a_log_emptied_after_it_was_read_is_found(tmp_path: Path) -> None:
    (path,) = write_run(tmp_path / "logs", "broker-1", OLD, segments=1)
    assert findings_after(lambda: os.truncate(path, 0), tmp_path) == {"log-shrank": 1}


def test_the_newest_segment_of_a_node_s_newest_run_must_not_vanish(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "logs", "broker-1", OLD)
    assert findings_after(paths[-1].unlink, tmp_path) == {"log-vanished": 1}


def test_what_retention_deletes_is_no_finding(tmp_path: Path) -> None:
    """Sealed segments that were read, and whole earlier runs."""
    earlier = write_run(tmp_path / "logs", "broker-1", OLD)
    paths = write_run(tmp_path / "logs", "broker-1", NEW)
    assert findings_after(lambda: [path.unlink() for path in (*earlier, *paths[:-1])], tmp_path) == {}


def test_a_sealed_segment_that_was_rewritten_is_found(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "logs", "broker-1", OLD)
    content = paths[0].read_bytes()

    def change() -> None:
        paths[0].write_bytes(content.replace(b"registered", b"REGISTERED"))
        os.utime(paths[0], (1, 1))

    assert findings_after(change, tmp_path) == {"log-changed": 1}


def test_a_sealed_segment_cut_at_its_end_is_found(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "logs", "broker-1", OLD)
    lines = paths[1].read_bytes().splitlines(keepends=True)
    assert findings_after(lambda: paths[1].write_bytes(b"".join(lines[:-1])), tmp_path) == {"log-changed": 1}


def rechained(path: Path) -> None:
    """Write a segment anew: one record is another, and all are chained as a process would have written them."""
    name = parse_segment_name(path.name)
    assert name is not None
    changes = [StateChange(kind=Kind.REGISTRATION, to_state="registered")] * 4
    changes.insert(1, StateChange(kind=Kind.REGISTRATION, to_state="registered again"))
    lines = Stamper(name.node, name.incarnation).stamp(changes, int(name.incarnation[:13]))
    path.write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.mark.parametrize("later_run", [True, False])
def test_a_log_written_anew_with_a_whole_chain_is_found_by_the_digest_that_was_kept(
    later_run: bool, tmp_path: Path
) -> None:
    """By the next audit, whose own process has not seen the file as it was."""
    logs, output = tmp_path / "logs", tmp_path / "output"
    (path,) = write_run(logs, "broker-1", OLD, segments=1)
    if later_run:
        write_run(logs, "broker-1", NEW)
    audit = FolderAudit(logs, output)
    audit.read()
    assert read_result(output).verdict == "clean"
    rechained(path)
    os.utime(path, (1, 1))
    audit.restart()
    audit.read()
    audit.read()
    assert read_result(output).findings == {"log-changed": 1}


def test_an_ended_run_written_anew_while_it_is_followed_is_found(tmp_path: Path) -> None:
    (path,) = write_run(tmp_path / "logs", "broker-1", OLD, segments=1)
    write_run(tmp_path / "logs", "broker-1", NEW)
    assert findings_after(lambda: rechained(path), tmp_path) == {"log-changed": 1}


@pytest.mark.parametrize("end", [b"not a record\n", b""])
def test_a_last_line_that_is_no_record_or_stands_twice_is_no_change(end: bytes, tmp_path: Path) -> None:
    (path,) = write_run(tmp_path / "logs", "broker-1", OLD, segments=1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, end or lines[1]]))
    audit = FolderAudit(tmp_path / "logs", tmp_path / "output")
    audit.read()
    audit.restart()
    audit.read()
    assert "log-changed" not in read_result(tmp_path / "output").findings


def test_a_folder_that_was_copied_is_the_same_log(tmp_path: Path) -> None:
    write_run(tmp_path / "logs", "broker-1", OLD)

    def copy() -> None:
        shutil.copytree(tmp_path / "logs", tmp_path / "copy")
        shutil.rmtree(tmp_path / "logs")
        shutil.copytree(tmp_path / "copy", tmp_path / "logs" / "moved")

    assert findings_after(copy, tmp_path) == {}


def test_a_change_while_no_audit_ran_is_found_by_the_time_of_the_last_batch(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "logs", "broker-1", OLD)
    since = paths[0].stat().st_mtime_ns + 1
    paths[0].write_bytes(paths[0].read_bytes().replace(b"registered", b"REGISTERED"))
    os.utime(paths[0], ns=(since + 1, since + 1))
    logs, read = LogFiles([tmp_path / "logs"]).logs(), {f"broker-1-{OLD}": Position(10, paths[2].stat().st_size)}
    found = ReadFiles(since).faults(logs, [], read, everything=True)
    assert [fault.fault for fault in found] == [FaultKind.CHANGED]
    assert ReadFiles(0).faults(logs, [], read, everything=True) == []


@pytest.mark.parametrize(("content", "why"), [(b"", "is empty"), (b'{"v":2', "has 6 bytes and no complete line")])
def test_a_log_with_nothing_to_read_is_named(content: bytes, why: str, tmp_path: Path) -> None:
    """Also in a new output folder, and beside a log that has lines."""
    write_run(tmp_path / "logs", "broker-1", OLD)
    (tmp_path / "logs" / f"broker-2-{OLD}-{0:020}.jsonl").write_bytes(content)
    result = audit_folder(tmp_path / "logs", tmp_path / "output")
    assert result.verdict == "incomplete"
    assert [(Path(gap.what).name, gap.why) for gap in result.incomplete] == [(f"broker-2-{OLD}-{0:020}.jsonl", why)]


def test_a_log_that_gets_its_first_line_later_is_read_then(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "logs", "broker-1", OLD, segments=1)
    content = paths[0].read_bytes()
    paths[0].write_bytes(b"")
    audit = FolderAudit(tmp_path / "logs", tmp_path / "output")
    audit.read()
    assert read_result(tmp_path / "output").verdict == "incomplete"
    paths[0].write_bytes(content)
    audit.read()
    assert (read_result(tmp_path / "output").verdict, read_result(tmp_path / "output").records) == ("clean", 5)


def test_a_new_segment_without_lines_is_no_gap(tmp_path: Path) -> None:
    write_run(tmp_path / "logs", "broker-1", OLD)
    (tmp_path / "logs" / f"broker-1-{OLD}-{15:020}.jsonl").touch()
    assert audit_folder(tmp_path / "logs", tmp_path / "output").verdict == "clean"


def test_of_many_sealed_segments_some_are_looked_at_each_time_and_all_in_turn(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "logs", "broker-1", OLD, segments=500, records=1)
    files, logs = ReadFiles(0), LogFiles([tmp_path / "logs"])
    read = {f"broker-1-{OLD}": Position(499, paths[-1].stat().st_size)}
    for _ in range(3):
        assert files.faults(logs.logs(), [], read, everything=False) == []
    paths[321].write_bytes(paths[321].read_bytes().replace(b"registered", b"REGISTERED"))
    found = [fault.file for _ in range(3) for fault in files.faults(logs.logs(), [], read, everything=False)]
    assert found == [str(paths[321])]


def test_the_check_without_spark_says_once_that_line_ends_were_converted(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "logs", "broker-1", OLD)
    paths[1].write_bytes(paths[1].read_bytes().replace(b"\n", b"\r\n"))
    result = verify_logs([tmp_path / "logs"])
    assert [(found.rule, found.node) for found in result.breaks] == [("log-changed", "broker-1")]


def test_the_check_without_spark_names_a_log_with_nothing_to_read(tmp_path: Path) -> None:
    write_run(tmp_path / "logs", "broker-1", OLD)
    (tmp_path / "logs" / f"broker-1-{OLD}-{15:020}.jsonl").touch()
    empty = tmp_path / "logs" / f"broker-2-{OLD}-{0:020}.jsonl"
    empty.touch()
    result = verify_logs([tmp_path / "logs"])
    assert [(gap.what, gap.why) for gap in result.incomplete] == [(str(empty), "is empty")]
