"""Faults put into the logs of a simulated cluster: each is found by its rules, or makes the audit incomplete."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.output_folder import OutputFolder
from audit.report import all_findings
from state_log.record import CHAIN_START, line_digest
from tests.log_audits import audit_folder

Record = dict[str, Any]
Fault = Callable[["Logs"], None]
CONTROLLER, BROKER = "controller-", "broker-"
_BATCH_BYTES = 1 << 20


class Logs:
    """A copy of the logs, to be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def largest(self, prefix: str) -> Path:
        return max(self.folder.rglob(f"{prefix}*.jsonl"), key=lambda path: (path.stat().st_size, path.name))

    def of_node(self, node: str) -> list[Path]:
        return list((self.folder / node).glob("*.jsonl"))

    def change_lines(self, prefix: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
        """The lines of the largest log of such a node, which are not chained anew."""
        path = self.largest(prefix)
        path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))

    def rewrite(self, prefix: str, change: Callable[[list[Record]], object]) -> None:
        """The records of the largest log of such a node, by somebody who numbers and chains its lines anew."""
        path = self.largest(prefix)
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        change(records)
        self.write(path, records)

    def write(self, path: Path, records: Sequence[Record]) -> None:
        """Number and chain these records."""
        lines, prev = [], CHAIN_START
        for seq, record in enumerate(records):
            line = json.dumps({**record, "seq": seq, "prev": prev}, separators=(",", ":")).encode()
            prev = line_digest(line)
            lines.append(line + b"\n")
        path.write_bytes(b"".join(lines))


def role(records: list[Record]) -> Record:
    """A role in the middle of an agent's log."""
    roles = [record for record in records if record["kind"] == "role" and "isr" in record]
    return roles[len(roles) // 2]


def election(records: list[Record]) -> Record:
    """An election in the middle of a controller's log."""
    found = [record for record in records if record["kind"] == "partition" and record.get("leader", -1) >= 0]
    return found[len(found) // 2]


def witness(records: list[Record]) -> Record:
    """The last record of what the broker has seen of a controller's log."""
    return next(record for record in reversed(records) if record["kind"] == "witness")


def of_agent(**fields: object) -> Fault:
    return lambda logs: logs.rewrite(BROKER, lambda records: role(records).update(fields))


def of_controller(**fields: object) -> Fault:
    return lambda logs: logs.rewrite(CONTROLLER, lambda records: election(records).update(fields))


def add_line(line: bytes) -> Fault:
    return lambda logs: logs.change_lines(CONTROLLER, lambda lines: [*lines, line])


def replace_once(old: bytes, new: bytes) -> Fault:
    def fault(logs: Logs) -> None:
        path = logs.largest(CONTROLLER)
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))

    return fault


def raise_epochs(record: Record) -> None:
    record.update(leader_epoch=record["leader_epoch"] + 50, partition_epoch=record["partition_epoch"] + 50)


def set_clock_back(records: list[Record]) -> None:
    for record in records[len(records) // 2 :]:
        record["at_ms"] -= 3_600_000


def second_process(logs: Logs) -> None:
    """A copy of a broker's log under another incarnation, chained anew, that goes on at the same time."""
    path = logs.largest(BROKER)
    name = path.name.replace("-17", "-16", 1)
    own = Logs(logs.folder / "other")
    own.folder.mkdir()
    shutil.copy(path, own.folder / name)
    incarnation = json.loads(path.read_bytes().splitlines()[0])["incarnation"]
    other = incarnation.replace("17", "16", 1)
    own.rewrite(BROKER, lambda records: [record.update(incarnation=other) for record in records])


def cut_truncation(records: list[Record]) -> None:
    record = next(r for r in records if r["kind"] == "truncation" and r["high_watermark"] > 0)
    record["to_offset"] = record["high_watermark"] - 1


Change = Callable[[list[Record]], object]


def everywhere(prefix: str, change: Change) -> Fault:
    """Change the records of all logs of such nodes, each chained anew."""

    def fault(logs: Logs) -> None:
        for path in sorted(logs.folder.rglob(f"{prefix}*.jsonl")):
            own = Logs(path.parent)
            records = [json.loads(line) for line in path.read_bytes().splitlines()]
            change(records)
            own.write(path, records)

    return fault


def shift(records: list[Record], ms: int) -> None:
    for record in records:
        record["at_ms"] += ms


def last_partition(records: list[Record]) -> list[Record]:
    """The records of states of the partition that a controller's log is about last, so that none come after these."""
    known = [r for r in records if r["kind"] in {"partition", "isr"} and r.get("leader") is not None]
    names = [(r["topic"], r["partition"]) for r in known]
    return [record for record, name in zip(known, names, strict=True) if name == names[-1]]


def add_states(records: list[Record], states: Sequence[tuple[int, int, list[int]]], every_ms: int) -> None:
    """Add states to a controller's log, each so long after the one before: leader, 1 for another leader epoch, ISR."""
    first = last_partition(records)[-1]
    last, at_ms = first, max(record["at_ms"] for record in records)
    for leader, step, isr in states:
        at_ms += every_ms
        last = {
            **last, "at_ms": at_ms, "kind": "isr", "leader": leader, "isr": isr, "replicas": first["replicas"],
            "leader_epoch": last["leader_epoch"] + step, "partition_epoch": last["partition_epoch"] + 1,
            "cause": {"event": "BrokerChange", "id": last["cause"]["id"] + 1}, "reason": "drawn",
        }  # fmt: skip
        records.append(last)


def newest_controller(logs: Logs) -> Path:
    """The log that ends last: what is added to it is behind all others."""
    paths = logs.folder.rglob(f"{CONTROLLER}*.jsonl")
    return max(paths, key=lambda path: json.loads(path.read_bytes().splitlines()[-1])["at_ms"])


def then(states: Callable[[Record], Sequence[tuple[int, int, list[int]]]], every_ms: int) -> Fault:
    """Let the newest controller write these states of a partition at the end."""

    def fault(logs: Logs) -> None:
        path = newest_controller(logs)
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        add_states(records, states(last_partition(records)[-1]), every_ms)
        logs.write(path, records)

    return fault


def leader_and_other(record: Record) -> tuple[int, int]:
    isr, replicas = record["isr"], record["replicas"]
    return isr[0], next(broker for broker in [*replicas, 77] if broker != isr[0])


def without_leader(record: Record) -> list[tuple[int, int, list[int]]]:
    leader, _ = leader_and_other(record)
    return [(-1, 1, [leader]), (leader, 1, [leader])]


def unclean(record: Record) -> list[tuple[int, int, list[int]]]:
    leader, other = leader_and_other(record)
    return [(leader, 1, [leader]), (other, 1, [other])]


def to_and_fro(record: Record) -> list[tuple[int, int, list[int]]]:
    leader, other = leader_and_other(record)
    return [(leader, 1, [leader, other])] + [(b, 1, [leader, other]) for _ in range(20) for b in (other, leader)]


def in_and_out(record: Record) -> list[tuple[int, int, list[int]]]:
    leader, other = leader_and_other(record)
    return [(leader, 1, [leader, other])] + [(leader, 0, isr) for _ in range(70) for isr in ([leader], [leader, other])]


def stall(kind: str, fields: Record) -> Fault:
    """Let work begin, and end two days later."""

    def fault(logs: Logs) -> None:
        path = newest_controller(logs)
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        state = last_partition(records)[-1]
        names = ["v", "node", "incarnation", "controller_epoch", "topic", "topic_id", "cause", *fields.get("also", ())]
        base = {name: state[name] for name in names if name in state}
        at_ms = max(record["at_ms"] for record in records)
        for to_state, later in (("started", 1), ("completed", 2 * 86_400_000)):
            records.append({**base, "kind": kind, "to_state": to_state, "at_ms": at_ms + later})
        logs.write(path, records)

    return fault


def under_min_isr(logs: Logs) -> None:
    """A leader that takes min.insync.replicas for 2 has the ISR for itself for two hours."""
    path = newest_controller(logs)
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    state = last_partition(records)[-1]
    leader, other = leader_and_other(state)
    state_replicas = [leader, other]
    state["replicas"] = state_replicas
    add_states(records, [(leader, 1, [leader]), (leader, 0, [leader, other])], 7_200_000)
    logs.write(path, records)
    elected = records[-2]
    broker = max((logs.folder / f"broker-{leader}").glob("*.jsonl"))
    own = [json.loads(line) for line in broker.read_bytes().splitlines()]
    cause = {**elected["cause"], "controller": 1001, "controller_epoch": elected["controller_epoch"]}
    names = ("v", "controller_epoch", "topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch")
    role_ = {name: elected[name] for name in (*names, "isr", "replicas", "at_ms") if name in elected}
    identity = {"node": own[0]["node"], "incarnation": own[0]["incarnation"], "min_insync_replicas": 2}
    own.append({**role_, **identity, "kind": "role", "broker": leader, "to_state": "leader", "cause": cause})
    logs.write(broker, own)


NOBODY: set[str] = set()
EXACTLY: dict[str, tuple[Fault, str]] = {
    "a leader missing for an hour": (then(without_leader, 3_600_000), "leaderless-too-long"),
    "an unclean election": (then(unclean, 1_000), "unclean-election"),
    "a leader that changes to and fro": (then(to_and_fro, 1_000), "leader-flapping"),
    "an ISR that shrinks again and again": (then(in_and_out, 1_000), "isr-flapping"),
    "an ISR below min.insync.replicas for two hours": (under_min_isr, "under-min-isr-too-long"),
    "a reassignment of two days": (stall("assignment", {"also": ["partition"]}), "reassignment-without-progress"),
    "a deletion of two days": (stall("deletion", {}), "deletion-without-progress"),
    "a broker's clock an hour ahead": (everywhere("broker-2", lambda r: shift(r, 3_600_000)), "clock-differs"),
    "a broker's clock an hour behind": (everywhere("broker-2", lambda r: shift(r, -3_600_000)), "clock-differs"),
    "a controller's clock an hour ahead": (
        everywhere("controller-1003", lambda r: shift(r, 3_600_000)),
        "clock-differs",
    ),
}
"""Name -> fault, and the rule that alone finds it, once."""
FAULTS: dict[str, tuple[Fault, str, set[str]]] = {
    "nothing": (lambda logs: None, "clean", NOBODY),
    "a folder named as a log": (lambda logs: (logs.folder / "x.jsonl").mkdir(), "clean", NOBODY),
    "a copy of all logs": (lambda logs: shutil.copytree(logs.folder, logs.folder / "copy") and None, "clean", NOBODY),
    "no log at all": (lambda logs: [p.unlink() for p in logs.folder.rglob("*.jsonl")] and None, "incomplete", NOBODY),
    "all logs garbage": (
        lambda logs: [p.write_bytes(b"\0x\n" * 9) for p in logs.folder.rglob("*.jsonl")] and None,
        "incomplete",
        NOBODY,
    ),
    "a controller's log garbage": (lambda logs: logs.change_lines(CONTROLLER, lambda _: [b"\0"]), "incomplete", NOBODY),
    "a broker's log garbage": (lambda logs: logs.change_lines(BROKER, lambda _: [b"\0"]), "incomplete", NOBODY),
    "a broker's logs empty": (
        lambda logs: [path.write_bytes(b"") for path in logs.of_node("broker-1")] and None,
        "incomplete",
        NOBODY,
    ),
    "a broker without a log": (lambda logs: shutil.rmtree(logs.folder / "broker-1"), "incomplete", NOBODY),
    "a controller without a log": (lambda logs: shutil.rmtree(logs.folder / "controller-1001"), "incomplete", NOBODY),
    "an incarnation of a controller without a log": (
        lambda logs: logs.largest(CONTROLLER).unlink(),
        "incomplete",
        NOBODY,
    ),
    "a controller's log cut at its end": (
        lambda logs: logs.change_lines(CONTROLLER, lambda lines: lines[: len(lines) * 2 // 3]),
        "findings",
        {"log-cut"},
    ),
    "a broker's log cut at its end": (
        lambda logs: logs.change_lines(BROKER, lambda lines: lines[: len(lines) // 2]),
        "findings",
        {"log-cut"},
    ),
    "a controller's log rewritten from some line on": (
        lambda logs: logs.rewrite(CONTROLLER, lambda records: election(records).update(reason="another")),
        "findings",
        {"log-rewritten"},
    ),
    "a broker's log rewritten from its beginning": (
        lambda logs: logs.rewrite(BROKER, lambda records: records[0].update(reason="another")),
        "findings",
        {"log-rewritten"},
    ),
    "a record of a witness forged": (
        lambda logs: logs.rewrite(BROKER, lambda records: witness(records)["witness"].update(digest="0" * 64)),
        "findings",
        {"log-rewritten"},
    ),
    "a witness of a log that never was": (
        lambda logs: logs.rewrite(
            BROKER, lambda records: witness(records)["witness"].update(incarnation="1699999999999.1")
        ),
        "findings",
        {"log-rewritten"},
    ),
    "a line of nested brackets": (add_line(b"[" * 100_000), "incomplete", NOBODY),
    "a line of nested objects": (add_line(b'{"a":' * 100_000), "incomplete", NOBODY),
    "a line of 10 MB": (add_line(b"x" * (10 << 20)), "incomplete", NOBODY),
    "a line longer than the limit": (add_line(b"x" * (20 << 20)), "incomplete", NOBODY),
    "a line that is no UTF-8": (add_line(b'{"v":2,"x":"\xff\xfe"}'), "incomplete", NOBODY),
    "a line of a later version": (replace_once(b'{"v":2', b'{"v":9'), "findings", {"sequence-gap"}),
    "a number of 65 bits": (
        replace_once(b'"leader_epoch":1,', b'"leader_epoch":36893488147419103232,'),
        "findings",
        {"sequence-gap"},
    ),
    "a leader epoch of 2^40": (
        replace_once(b'"leader_epoch":1,', b'"leader_epoch":1099511627776,'),
        "findings",
        {"sequence-gap"},
    ),
    "lines swapped": (
        lambda logs: logs.change_lines(CONTROLLER, lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]]),
        "findings",
        {"records-out-of-order"},
    ),
    "a line taken out": (
        lambda logs: logs.change_lines(CONTROLLER, lambda lines: lines[:20] + lines[21:]),
        "findings",
        {"sequence-gap"},
    ),
    "a line twice": (
        lambda logs: logs.change_lines(CONTROLLER, lambda lines: lines[:21] + lines[20:]),
        "findings",
        {"duplicate-sequence"},
    ),
    "lines end with CR LF": (
        lambda logs: logs.change_lines(CONTROLLER, lambda lines: [line + b"\r" for line in lines]),
        "findings",
        {"log-changed"},
    ),
    "a reason altered": (replace_once(b'"reason":"', b'"reason":"x'), "findings", {"chain-break"}),
    "a controller epoch of two controllers": (
        lambda logs: logs.rewrite(
            CONTROLLER, lambda records: [r.update(controller_epoch=1) for r in records if r["kind"] == "controller"]
        ),
        "findings",
        {"one-controller-per-epoch"},
    ),
    "another leader in a broker's role": (
        of_agent(leader=9, isr=[9], to_state="follower"),
        "findings",
        {"one-leader-per-epoch", "agent-disagrees-with-controller"},
    ),
    "another ISR in a broker's role": (
        lambda logs: logs.rewrite(BROKER, lambda r: role(r).update(isr=[role(r)["leader"], 77])),
        "findings",
        {"agent-disagrees-with-controller"},
    ),
    "epochs that nobody gave": (
        lambda logs: logs.rewrite(BROKER, lambda records: raise_epochs(role(records))),
        "findings",
        {"epoch-nobody-gave"},
    ),
    "a request of an earlier controller": (
        lambda logs: logs.rewrite(BROKER, lambda records: role(records)["cause"].update(controller_epoch=1)),
        "findings",
        {"stale-controller-epoch"},
    ),
    "a clock set back": (lambda logs: logs.rewrite(BROKER, set_clock_back), "findings", {"clock-went-back"}),
    "a second process of a broker": (second_process, "findings", {"two-nodes-one-id"}),
    "a truncation below the high watermark": (
        lambda logs: logs.rewrite("broker-4", cut_truncation),
        "findings",
        {"no-truncation-below-high-watermark"},
    ),
    "a leader outside of the ISR": (of_controller(isr=[99]), "findings", {"leader-in-isr"}),
    "an empty ISR": (of_controller(isr=[]), "findings", {"isr-not-empty"}),
    "an ISR that names a broker twice": (
        lambda logs: logs.rewrite(CONTROLLER, lambda r: election(r).update(isr=election(r)["isr"] * 2)),
        "findings",
        {"isr-without-repetition"},
    ),
    "an ISR outside of the replicas": (of_controller(replicas=[98]), "findings", {"isr-within-replicas"}),
    "a transition outside of the table": (
        of_controller(from_state="NonExistentPartition"),
        "findings",
        {"legal-partition-transition"},
    ),
    "a leader epoch that fell": (of_controller(leader_epoch=0), "findings", {"leader-epoch-never-back"}),
    "a leader epoch raised by seven": (
        lambda logs: logs.rewrite(
            CONTROLLER, lambda r: election(r).update(leader_epoch=election(r)["leader_epoch"] + 7)
        ),
        "findings",
        {"leader-epoch-by-one"},
    ),
}
"""Name -> fault, verdict, and rules that are among the findings."""


@pytest.fixture(scope="module")
def sound_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("simulated")
    command = [sys.executable, "-P", "-m", "klamm", "simulate", "--seeds", "2..2", "--jobs", "1", "--output", output]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return output / "seed-2"


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_or_makes_the_audit_incomplete(name: str, sound_logs: Path, tmp_path: Path) -> None:
    fault, verdict, rules = FAULTS[name]
    shutil.copytree(sound_logs, tmp_path / "logs")
    fault(Logs(tmp_path / "logs"))
    result = audit_folder(tmp_path / "logs", tmp_path / "output", _BATCH_BYTES)
    assert (result.verdict, rules - set(result.findings)) == (verdict, set()), result
    assert bool(result.incomplete) or verdict != "incomplete"
    if verdict != "findings":
        assert result.findings == {}


@pytest.mark.parametrize("name", EXACTLY)
def test_a_fault_is_found_once_by_its_rule(name: str, sound_logs: Path, tmp_path: Path) -> None:
    fault, rule = EXACTLY[name]
    shutil.copytree(sound_logs, tmp_path / "logs")
    fault(Logs(tmp_path / "logs"))
    result = audit_folder(tmp_path / "logs", tmp_path / "output", _BATCH_BYTES)
    assert result.findings == {rule: 1}, all_findings(OutputFolder(tmp_path / "output"))
