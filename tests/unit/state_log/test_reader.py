import json
import resource
from pathlib import Path

import pytest

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from simulator.memory_state_log import write_segment
from state_log.reader import merge, numbered_lines, read_lines, read_state_changes, verify
from state_log.record import Kind, LoadedPartition, MalformedLine, Stamper, StateChange, decode_line, line_digest
from state_log.writer import SegmentName


def change(kind: Kind, epoch: int | None = None, topic: str | None = None, partition: int | None = None) -> StateChange:
    controller_epoch = None if epoch is None else ControllerEpoch(epoch)
    return StateChange(kind=kind, controller_epoch=controller_epoch, topic=topic, partition=partition)


def loaded(partition: int) -> LoadedPartition:
    one = BrokerId(1)
    return LoadedPartition(partition, one, LeaderEpoch(0), PartitionEpoch(0), (one,), (one,), ControllerEpoch(1))


def write(directory: Path, node: str, changes: list[StateChange], incarnation: str = "1700000000000.1") -> list[bytes]:
    directory.mkdir(exist_ok=True)
    lines = Stamper(node, incarnation).stamp(changes, 1)
    (directory / f"{node}-{incarnation}-{0:020d}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return lines


def test_nodes_merge_by_controller_epoch_then_node_and_keep_their_own_order(tmp_path: Path) -> None:
    write(tmp_path / "b", "controller-1", [change(Kind.ISR, 1, "t", 0), change(Kind.ISR, 3, "t", 0)])
    write(tmp_path / "a", "broker-9", [change(Kind.ROLE, 2, "t", 0), change(Kind.TRUNCATION, None, "t", 0)])
    merged = [(r.node, r.seq) for r in read_state_changes([tmp_path / "b", tmp_path / "a", tmp_path])]
    assert merged == [("controller-1", 0), ("broker-9", 0), ("broker-9", 1), ("controller-1", 1)]


def test_a_topic_and_a_partition_narrow_what_is_read(tmp_path: Path) -> None:
    start = StateChange(kind=Kind.LOADED, topic="t", partitions=(loaded(0), loaded(1)))
    others = [change(Kind.BROKER, 1), change(Kind.ISR, 1, "t", 0), change(Kind.ISR, 1, "u", 0)]
    write(tmp_path, "controller-1", [start, change(Kind.TOPIC, 1, "t"), change(Kind.ISR, 1, "t", 1), *others])
    assert [r.seq for r in read_state_changes([tmp_path], "t")] == [0, 1, 2, 4]
    assert [r.seq for r in read_state_changes([tmp_path], "t", 0)] == [0, 1, 4]
    assert [r.seq for r in read_state_changes([tmp_path], "t", 7)] == [1]
    first = next(iter(read_state_changes([tmp_path], "t", 1)))
    assert (first.partition, first.leader, first.partitions) == (1, 1, (loaded(1),))


def test_the_lines_of_one_node_are_handed_out_as_they_stand_newest_kept(tmp_path: Path) -> None:
    lines = write(tmp_path, "broker-1", [change(Kind.ROLE, n, "t", n % 2) for n in range(6)])
    assert read_lines(tmp_path).lines == tuple(lines)
    even = read_lines(tmp_path, "t", 0)
    assert even.lines == (lines[0], lines[2], lines[4])
    assert not even.truncated
    cut = read_lines(tmp_path, "t", 0, limit_bytes=2 * len(lines[0]) + 5)
    assert cut.lines == (lines[2], lines[4])
    assert cut.truncated
    assert read_lines(tmp_path / "absent").lines == ()


@pytest.mark.parametrize("line", [b'{"topic":"t\xff"}', b'{"topic":' + b"[" * 5000, b'{"topic":1}', b"\0"])
def test_a_damaged_line_is_passed_over_when_a_topic_is_asked_for(tmp_path: Path, line: bytes) -> None:
    lines = write(tmp_path, "broker-1", [change(Kind.ROLE, 1, "t", 0)])
    with next(tmp_path.glob("*.jsonl")).open("ab") as file:
        file.write(line + b"\n")
    assert read_lines(tmp_path, "t").lines == tuple(lines)


def test_lines_from_the_wire_merge_like_files_and_unreadable_ones_are_passed_over() -> None:
    lines = Stamper("n", "1700000000000.1").stamp([change(Kind.ISR, 1, "t", 0)] * 2, 1)
    assert [r.seq for r in merge([lines[1], b"garbage", lines[0]])] == [0, 1]


def test_an_untouched_log_verifies(tmp_path: Path) -> None:
    write(tmp_path, "controller-1", [change(Kind.BROKER, 1)] * 5)
    write(tmp_path, "controller-2", [change(Kind.BROKER, 1)] * 3)
    assert verify([tmp_path]) == []


@pytest.mark.parametrize(
    ("tampering", "rules"),
    [
        ("delete", ["sequence-gap"]),
        ("repeat", ["duplicate-sequence"]),
        ("alter", ["chain-break"]),
        ("delete first", ["sequence-gap"]),
        ("insert", ["duplicate-sequence"]),
    ],
)
def test_tampering_with_lines_shows(tmp_path: Path, tampering: str, rules: list[str]) -> None:
    lines = write(tmp_path, "controller-1", [change(Kind.BROKER, n) for n in range(6)])
    forged = json.dumps({**json.loads(lines[2]), "controller_epoch": 9}, separators=(",", ":")).encode()
    assert line_digest(forged) != line_digest(lines[2])
    altered = {
        "delete": lines[:2] + lines[3:],
        "repeat": [*lines[:3], lines[2], *lines[3:]],
        "alter": [*lines[:2], forged, *lines[3:]],
        "delete first": lines[1:],
        "insert": [*lines[:3], forged, *lines[3:]],
    }[tampering]
    path = next(tmp_path.glob("*.jsonl"))
    path.write_bytes(b"".join(line + b"\n" for line in altered))
    found = verify([tmp_path])
    assert [b.rule for b in found] == rules
    assert {b.node for b in found} == {"controller-1"}


def test_a_log_whose_oldest_segments_retention_deleted_verifies_and_one_cut_within_a_segment_does_not(
    tmp_path: Path,
) -> None:
    lines = Stamper("broker-1", "1700000000000.1").stamp([change(Kind.BROKER, n) for n in range(4)], 1)
    path = write_segment(tmp_path, SegmentName("broker-1", "1700000000000.1", 2), lines[2:])
    assert verify([tmp_path]) == []
    path.write_bytes(lines[3] + b"\n")
    assert [(b.rule, b.message) for b in verify([tmp_path])] == [("sequence-gap", "records 0 to 2 are missing")]


def test_a_line_longer_than_memory_is_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(6 + (1 << 29))
        file.seek(0, 2)
        file.write(b"\nlast\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 27), hard))
    try:
        first, long, last = numbered_lines(path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert (first, last) == ((0, b"first"), (6 + (1 << 29) + 1, b"last"))
    assert long[0] == 6
    assert isinstance(decode_line(long[1]), MalformedLine)
