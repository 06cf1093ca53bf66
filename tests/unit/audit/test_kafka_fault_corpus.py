"""Faults put into state-change.logs of Apache Kafka: each is found by its rule, or makes the audit incomplete."""

import gzip
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from audit.report.report import read_quarantine
from tests.audits.log_audits import audit_folder
from tests.kafka.logs import DELETION, copy_cluster, write_log

RECORDING = "3.9.1-trace"
Fault = Callable[[Path], object]


class Expected(NamedTuple):
    """`rules`: all that are among the findings. `said`: is in the reason of a gap, or in that of a malformed line."""

    verdict: str
    rules: frozenset[str] = frozenset()
    said: str = ""
    zone: str = "UTC"


def log_with(folder: Path, text: bytes) -> Path:
    """The log that has most lines with this text."""
    return max(sorted(folder.glob("*.log")), key=lambda path: path.read_bytes().count(text))


def change(where: bytes, pattern: bytes, to: bytes, which: int = 0) -> Fault:
    """Replace something in one of the lines that match."""

    def apply(folder: Path) -> None:
        path = log_with(folder, where)
        lines = path.read_bytes().splitlines(keepends=True)
        found = [n for n, line in enumerate(lines) if where in line and re.search(pattern, line)]
        lines[found[which]] = re.sub(pattern, to, lines[found[which]], count=1)
        write_log(path, b"".join(lines))

    return apply


def change_lines(where: bytes, edit: Callable[[list[bytes]], list[bytes]]) -> Fault:
    """Change the lines of the log that has most lines with this text."""

    def apply(folder: Path) -> None:
        path = log_with(folder, where)
        write_log(path, b"".join(edit(path.read_bytes().splitlines(keepends=True))))

    return apply


def without_trace(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if b"] TRACE [" not in line]


def insert(line: bytes) -> Fault:
    return change_lines(CONTROLLER, lambda lines: [*lines[:30], line + b"\n", *lines[30:]])


def rotate(folder: Path) -> None:
    for path in folder.glob("*.log"):
        lines = path.read_bytes().splitlines(keepends=True)
        write_log(path.with_name(f"{path.name}.2026-11-22-10"), b"".join(lines[:30]))
        write_log(path, b"".join(lines[30:]))


def concatenate(folder: Path) -> None:
    first, second, _ = sorted(folder.glob("*.log"))
    write_log(first, first.read_bytes() + second.read_bytes())
    second.unlink()


def compress(folder: Path) -> None:
    path = sorted(folder.glob("*.log"))[0]
    with gzip.open(f"{path}.1.gz", "wb") as file:
        file.write(path.read_bytes())


CONTROLLER = b"[Controller id="
CACHED = b"Cached leader info"
ELECTED = b"with state LeaderAndIsr"
NOTHING: frozenset[str] = frozenset()
FAULTS: dict[str, tuple[Fault, Expected]] = {
    "nothing": (lambda _: None, Expected("clean")),
    "a second leader in an epoch, in a broker's cache": (
        change(CACHED, rb"leader=1", b"leader=3"),
        Expected("findings", frozenset({"one-leader-per-epoch", "agent-disagrees-with-controller"})),
    ),
    "a second leader in an epoch, by an election": (
        change(b"from NewPartition to OnlinePartition", rb"leader=\d", b"leader=3"),
        Expected("findings", frozenset({"one-leader-per-epoch", "one-state-per-partition-epoch"})),
    ),
    "a broker that leads by itself": (
        change(b"] Follower ", rb"Current leader is \d", b"Current leader is 7"),
        Expected("findings", frozenset({"one-leader-per-epoch"})),
    ),
    "a leader epoch that fell": (
        change(b" after removing replica ", rb"LeaderEpoch:\d+", b"LeaderEpoch:0"),
        Expected(
            "findings",
            frozenset({"leader-epoch-never-back", "one-leader-per-epoch", "one-state-per-partition-epoch"}),
        ),
    ),
    "a leader epoch raised by seven": (
        change(b"] Leader ", rb"leader epoch 1 ", b"leader epoch 8 "),
        Expected("findings", frozenset({"agent-disagrees-with-controller", "leader-epoch-never-back"})),
    ),
    "an epoch in a broker's cache that fell": (
        change(CACHED, rb"leaderEpoch=1, (.*zkVersion)=\d", rb"leaderEpoch=0, \1=1", -1),
        Expected("findings", frozenset({"agent-disagrees-with-controller", "leader-epoch-never-back"})),
    ),
    "a transition of a partition outside of the table": (
        change(
            CONTROLLER,
            b"state from NonExistentPartition to NewPartition",
            b"state from OnlinePartition to NewPartition",
        ),
        Expected("findings", frozenset({"legal-partition-transition"})),
    ),
    "a transition of a replica outside of the table": (
        change(CONTROLLER, b"from OnlineReplica to OfflineReplica", b"from NonExistentReplica to OfflineReplica"),
        Expected("findings", frozenset({"legal-replica-transition"})),
    ),
    "a partition whose transition leaves another state": (
        change(CONTROLLER, b"from OfflinePartition to Online", b"from OnlinePartition to Online"),
        Expected("findings", frozenset({"partition-transition-continues"})),
    ),
    "a replica whose transition leaves another state": (
        change(CONTROLLER, b"from OnlineReplica to OfflineReplica", b"from NewReplica to OfflineReplica"),
        Expected("findings", frozenset({"replica-transition-continues"})),
    ),
    "a transition of a replica that was not written": (
        change_lines(
            CONTROLLER,
            lambda lines: [n for n in lines if b"from OnlineReplica to OfflineReplica" not in n],
        ),
        Expected("findings", frozenset({"replica-transition-continues"})),
    ),
    "a new partition with an old leader epoch": (
        change(b"from NewPartition to OnlinePartition", rb"leaderEpoch=0", b"leaderEpoch=4"),
        Expected(
            "findings",
            frozenset({"partition-begins-at-zero", "one-state-per-partition-epoch", "leader-epoch-never-back"}),
        ),
    ),
    "a replica twice in a new partition": (
        change(CONTROLLER, rb"assigned replicas (\d),", rb"assigned replicas \1,\1,"),
        Expected("findings", frozenset({"replicas-without-repetition"})),
    ),
    "an online partition without a leader": (
        change(b"from OfflinePartition to OnlinePartition", rb"leader=\d", b"leader=-1"),
        Expected(
            "findings", frozenset({"election-names-leader", "one-leader-per-epoch", "one-state-per-partition-epoch"})
        ),
    ),
    "a leader outside of the ISR": (
        change(ELECTED, rb"brokerId=1", b"brokerId=8"),
        Expected("findings", frozenset({"leader-in-isr", "one-state-per-partition-epoch"})),
    ),
    "an empty ISR": (
        change(b"become-leader LeaderAndIsr request", rb"isr=\[[^]]*\]", b"isr=[]"),
        Expected("findings", frozenset({"isr-not-empty", "one-state-per-partition-epoch"})),
    ),
    "an ISR that names a broker twice": (
        change(b" after removing replica ", rb"ISR:(\d),", rb"ISR:\1,\1,"),
        Expected("findings", frozenset({"isr-without-repetition"})),
    ),
    "another ISR in a leader's own line": (
        change(b"] Leader ", rb"ISR \[[^]]*\]", b"ISR [1,2,3,4]"),
        Expected("findings", frozenset({"agent-disagrees-with-controller"})),
    ),
    "a controller epoch of two controllers": (
        change_lines(
            CONTROLLER, lambda lines: [re.sub(rb"controller \d epoch 1", b"controller 9 epoch 1", n) for n in lines]
        ),
        Expected("findings", frozenset({"one-controller-per-epoch"}), "there are no logs of theirs"),
    ),
    "a request of an earlier controller that was carried out": (
        change(CACHED, rb"(controller \d) epoch 1", rb"\1 epoch 0", -1),
        Expected("findings", frozenset({"stale-controller-epoch"})),
    ),
    "a line cut in its middle": (
        change(ELECTED, rb"isrWithBrokerEpoch.*$", b""),
        Expected("incomplete", NOTHING, "it is cut"),
    ),
    "a log cut within its last line": (
        change_lines(CONTROLLER, lambda lines: [*lines[:-1], lines[-1][:50] + b"\n"]),
        Expected("incomplete", NOTHING, "it is cut"),
    ),
    "a line of garbage": (insert(b"\x00\xff\xfe garbage"), Expected("incomplete", NOTHING, "is no UTF-8")),
    "a line of another program": (
        insert(b"Nov 22 host cron[1]: hi"),
        Expected("incomplete", NOTHING, "does not end with"),
    ),
    "nesting without end": (insert(b"[" * 100_000), Expected("incomplete", NOTHING, "does not end with")),
    "a message that no Kafka writes": (
        insert(b"[2026-11-22 23:11:50,000] INFO [Controller id=2 epoch=1] Ate a partition (state.change.logger)"),
        Expected("incomplete", NOTHING, "no message of Kafka's"),
    ),
    "a number of 65 bits": (
        change(CONTROLLER, rb"Changed state of replica \d", b"Changed state of replica 36893488147419103232"),
        Expected("incomplete", NOTHING, "no message of Kafka's"),
    ),
    "a number of 33 bits": (
        change(CONTROLLER, rb"Changed state of replica \d", b"Changed state of replica 4294967296"),
        Expected("incomplete", NOTHING, "no 32-bit number"),
    ),
    "a day that does not exist": (
        change(CONTROLLER, rb"^\[2026-11-22", b"[2026-02-30", 5),
        Expected("incomplete", NOTHING, "2026-02-30"),
    ),
    "the level lowered in between": (
        change_lines(CONTROLLER, lambda lines: [*lines[: len(lines) // 2], *without_trace(lines[len(lines) // 2 :])]),
        Expected("incomplete", NOTHING, "its level changes: TRACE from byte"),
    ),
    "one log of another level, from its beginning to its end": (
        change_lines(b"] Follower ", without_trace),
        Expected("clean"),
    ),
    "a line of TRACE taken out": (
        change_lines(CACHED, lambda lines: [n for k, n in enumerate(lines) if k != one_of_several(lines, CACHED)]),
        Expected("incomplete", NOTHING, "TRACE lines are missing: 1 messages"),
    ),
    "a log backwards": (
        change_lines(CACHED, lambda lines: lines[::-1]),
        Expected("findings", frozenset({"clock-went-back", "partition-epoch-never-back"})),
    ),
    "lines of two brokers in one file": (
        concatenate,
        Expected("incomplete", NOTHING, "a log is of one broker"),
    ),
    "a log missing": (
        lambda folder: log_with(folder, b"] Follower ").unlink(),
        Expected("incomplete", NOTHING, "there are no logs of theirs"),
    ),
    "a log twice": (
        lambda folder: shutil.copy(log_with(folder, CACHED), folder / "copy.state-change.log"),
        Expected("clean"),
    ),
    "an empty log": (
        lambda folder: write_log(log_with(folder, b"] Follower "), b""),
        Expected("incomplete", NOTHING, "is empty"),
    ),
    "a log without a complete line": (
        lambda folder: write_log(log_with(folder, b"] Follower "), b"[2026-11-22 23:11:50,000] INFO"),
        Expected("incomplete", NOTHING, "no complete line"),
    ),
    "a compressed log": (compress, Expected("incomplete", NOTHING, "is compressed")),
    "rotated logs": (rotate, Expected("clean")),
    "an active log that is empty after its copy": (
        lambda folder: [
            path.rename(path.with_suffix(".log.1")).with_suffix("").touch() for path in folder.glob("*.log")
        ],
        Expected("clean"),
    ),
    "CR LF line ends, as log4j writes them on Windows": (
        change_lines(CONTROLLER, lambda lines: [line[:-1] + b"\r\n" for line in lines]),
        Expected("clean"),
    ),
    "another time zone": (
        lambda _: None,
        Expected("incomplete", NOTHING, "is --timezone right?", "America/New_York"),
    ),
    "a time that the zone skips": (
        change_lines(
            CONTROLLER, lambda lines: [re.sub(rb"^\[2026-11-22 23:", b"[2026-03-29 02:", line) for line in lines]
        ),
        Expected("incomplete", NOTHING, "a local time that Europe/Berlin does not have", "Europe/Berlin"),
    ),
}
"""Name -> fault, and what is said of it."""


def one_of_several(lines: list[bytes], text: bytes) -> int:
    """The number of a line with this text that is followed by another: they are summed up together."""
    return next(n for n in reversed(range(len(lines) - 1)) if text in lines[n] and text in lines[n + 1])


@pytest.fixture(scope="module")
def sound_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_cluster(RECORDING, tmp_path_factory.mktemp("kafka") / "logs", DELETION[RECORDING])


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_or_makes_the_audit_incomplete(name: str, sound_logs: Path, tmp_path: Path) -> None:
    fault, expected = FAULTS[name]
    shutil.copytree(sound_logs, tmp_path / "logs")
    fault(tmp_path / "logs")
    result = audit_folder(tmp_path / "logs", tmp_path / "output", zone=expected.zone)
    assert (result.verdict, set(result.findings)) == (expected.verdict, expected.rules), result
    reasons = [gap.why for gap in result.incomplete] + [row["why"] for row in quarantined(tmp_path / "output")]
    assert not expected.said or any(expected.said in reason for reason in reasons), reasons


def quarantined(output: Path) -> list[dict[str, str]]:
    return read_quarantine(output, 100)  # type: ignore[return-value]
