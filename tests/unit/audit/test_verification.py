"""`klamm audit verify` on logs that were changed in every way, and the same logs in an audit: the same verdict."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from audit.chains.witnesses import LAG_MS, SEALED_LAG_MS
from audit.cli import app
from audit.commands.joined import Joined
from audit.report.report import read_result
from audit.storage.given_heads import add_given, read_given
from audit.storage.output_folder import OutputFolder
from audit.verification import verify_logs
from cluster.model.exit_codes import ExitCode
from simulator.memory_state_log import write_segment
from state_log.chain import OUT_OF_ORDER, SEQUENCE_GAP
from state_log.heads_file import GivenHead, encode_heads_file
from state_log.record import Boot, Cause, Kind, Stamper, StateChange, Witness, line_digest
from state_log.writer import SegmentName
from tests.audits.log_audits import audit_folder

CONTROLLER, BROKER = "controller-1001", "broker-1"
FIRST, SECOND, OF_BROKER = "1700000000000.1", "1700000100000.2", "1700000000001.3"
CHANGE = StateChange(kind=Kind.BROKER, cause=Cause("BrokerChange", 7), broker=1, to_state="live")
SEEN = 7


class Logs:
    """A controller with two logs, and a broker that has seen record 7 of the first and record 3 of the second."""

    def __init__(self, folder: Path, boots: tuple[str, str] = ("a", "a")) -> None:
        self.folder = folder
        self.lines = {
            name: self.stamp(CONTROLLER, name, [CHANGE] * 12, boot)
            for name, boot in zip((FIRST, SECOND), boots, strict=True)
        }
        witnesses = [self.witness(FIRST, SEEN), self.witness(SECOND, 3)]
        self.lines[OF_BROKER] = self.stamp(BROKER, OF_BROKER, witnesses, "b")

    @staticmethod
    def stamp(node: str, incarnation: str, changes: list[StateChange], boot: str) -> list[bytes]:
        return Stamper(node, incarnation, lambda: Boot(5, boot)).stamp(changes, 1_700_000_000_000)

    def witness(self, incarnation: str, seq: int) -> StateChange:
        witness = Witness(CONTROLLER, incarnation, seq, line_digest(self.lines[incarnation][seq]), "a")
        return StateChange(kind=Kind.WITNESS, witness=witness)

    def head(self, incarnation: str, seq: int) -> GivenHead:
        node = BROKER if incarnation == OF_BROKER else CONTROLLER
        return GivenHead(node, incarnation, seq, line_digest(self.lines[incarnation][seq]))

    def write(self) -> None:
        for incarnation, lines in self.lines.items():
            node = BROKER if incarnation == OF_BROKER else CONTROLLER
            if lines:
                # Two files: the second begins with record 6.
                for first in (0, 6) if len(lines) > 6 else (0,):
                    part = lines[first : 6 if not first and len(lines) > 6 else None]
                    write_segment(self.folder / node, SegmentName(node, incarnation, first), part)


def cut(logs: Logs) -> None:
    del logs.lines[FIRST][SEEN:]


def last_file_gone(logs: Logs) -> None:
    del logs.lines[FIRST][6:]


def cut_behind_what_was_seen(logs: Logs) -> None:
    del logs.lines[FIRST][SEEN + 1 :]


def rewritten(logs: Logs) -> None:
    other = StateChange(kind=Kind.BROKER, cause=Cause("BrokerChange", 8), broker=2, to_state="live")
    logs.lines[FIRST] = logs.stamp(CONTROLLER, FIRST, [CHANGE] * 3 + [other] * 9, "a")


def witness_rewritten(logs: Logs) -> None:
    forged = Witness(CONTROLLER, FIRST, 9, "ab" * 32, "a")
    changes = [StateChange(kind=Kind.WITNESS, witness=forged), logs.witness(SECOND, 3)]
    logs.lines[OF_BROKER] = logs.stamp(BROKER, OF_BROKER, changes, "b")


def forked(logs: Logs) -> None:
    forged = Witness(CONTROLLER, FIRST, 4, "ab" * 32, "a")
    changes = [StateChange(kind=Kind.WITNESS, witness=forged), logs.witness(FIRST, SEEN), logs.witness(SECOND, 3)]
    logs.lines[OF_BROKER] = logs.stamp(BROKER, OF_BROKER, changes, "b")


def first_log_gone(logs: Logs) -> None:
    logs.lines[FIRST] = []


def controller_gone(logs: Logs) -> None:
    logs.lines[FIRST] = logs.lines[SECOND] = []


def broker_gone(logs: Logs) -> None:
    logs.lines[OF_BROKER] = []


def line_gone(logs: Logs) -> None:
    del logs.lines[FIRST][4]


def malformed_end(logs: Logs) -> None:
    logs.lines[FIRST][SEEN:] = [b"x" * 20]


def nothing(_: Logs) -> None:
    pass


# fault -> rules of verify, whether it is incomplete.
FAULTS: dict[Callable[[Logs], None], tuple[list[str], bool]] = {
    nothing: ([], False),
    cut: (["log-cut"], False),
    last_file_gone: (["log-cut"], False),
    cut_behind_what_was_seen: ([], False),
    rewritten: (["log-rewritten"], False),
    witness_rewritten: (["log-rewritten"], False),
    forked: (["log-rewritten"], False),
    first_log_gone: ([], True),
    controller_gone: ([], True),
    broker_gone: ([], False),
    line_gone: ([SEQUENCE_GAP], False),
    malformed_end: ([], True),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found_by_its_rule_alone(fault: Callable[[Logs], None], tmp_path: Path) -> None:
    rules, incomplete = FAULTS[fault]
    logs = Logs(tmp_path / "logs")
    fault(logs)
    logs.write()
    result = verify_logs([tmp_path / "logs"])
    assert ([b.rule for b in result.breaks], bool(result.incomplete)) == (rules, incomplete), result
    assert result.ends.startswith("not checked")
    audited = audit_folder(tmp_path / "logs", tmp_path / "output", 1_500)
    assert audited.findings == dict.fromkeys(rules, 1)
    assert incomplete <= bool(audited.incomplete)


@pytest.mark.parametrize(("boots", "rules"), [(("a", "a"), ["log-cut"]), (("a", "b"), [])])
def test_a_crash_of_the_machine_may_explain_a_lost_end(
    boots: tuple[str, str], rules: list[str], tmp_path: Path
) -> None:
    logs = Logs(tmp_path / "logs", boots)
    cut(logs)
    logs.write()
    result = verify_logs([tmp_path / "logs"])
    assert ([b.rule for b in result.breaks], bool(result.incomplete)) == (rules, not rules)
    audited = audit_folder(tmp_path / "logs", tmp_path / "output")
    assert list(audited.findings) == rules
    assert bool(audited.incomplete) == (not rules)


def test_heads_are_compared_with_the_ends(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs")
    heads = [logs.head(SECOND, 11), logs.head(OF_BROKER, 1)]
    cut_behind_what_was_seen(logs)
    del logs.lines[SECOND][9:]
    logs.write()
    result = verify_logs([tmp_path / "logs"], heads)
    assert [(b.rule, b.incarnation) for b in result.breaks] == [("log-cut", SECOND)]
    assert result.ends == ""
    folder = OutputFolder(tmp_path / "output")
    audited = audit_folder(tmp_path / "logs", tmp_path / "output")
    assert (audited.verdict, audited.ends.partition(":")[0]) == ("clean", "not checked")
    add_given(folder, heads, lag_ms=0)
    given = read_result(tmp_path / "output")
    assert (given.verdict, given.findings, given.ends) == ("findings", {"log-cut": 1}, "")
    # The logs are being followed, and the head was read after their newest record.
    add_given(folder, [], lag_ms=LAG_MS)
    assert read_result(tmp_path / "output").findings == {"log-cut": 1}


def test_a_head_that_has_not_moved_is_kept_once(tmp_path: Path) -> None:
    """An audit that is run every minute is given the heads of an idle cluster every minute."""
    first = GivenHead("broker-1", "1700000000000.1", 7, "a" * 64, at_ms=5)
    other = GivenHead("broker-1", "1700000000000.1", 7, "b" * 64, at_ms=9)
    for head in (first, msgspec.structs.replace(first, at_ms=6), other):
        add_given(OutputFolder(tmp_path), [head], lag_ms=0)
    assert read_given(OutputFolder(tmp_path)).heads == (first, other)


def test_a_log_that_is_being_followed_may_lag_by_a_minute(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs")
    cut(logs)
    logs.write()
    output = tmp_path / "output"
    assert audit_folder(tmp_path / "logs", output).findings == {"log-cut": 1}
    add_given(OutputFolder(output), [], lag_ms=LAG_MS)
    behind = read_result(output)
    assert (behind.verdict, behind.findings) == ("incomplete", {})
    assert any("klamm audit run --once" in gap.why for gap in behind.incomplete)
    # A minute later by the clock of the witness.
    later = Stamper(BROKER, "1700000061000.4").stamp([StateChange(kind=Kind.ROLE)], 1_700_000_061_000)
    write_segment(tmp_path / "logs" / BROKER, SegmentName(BROKER, "1700000061000.4", 0), later)
    assert audit_folder(tmp_path / "logs", tmp_path / "later").findings == {"log-cut": 1}
    add_given(OutputFolder(tmp_path / "later"), [], lag_ms=LAG_MS)
    assert read_result(tmp_path / "later").findings == {"log-cut": 1}
    # Of a file that is still open, nothing is there for an hour.
    add_given(OutputFolder(tmp_path / "later"), [], lag_ms=SEALED_LAG_MS)
    assert read_result(tmp_path / "later").findings == {}


def test_lines_that_stand_in_another_order_are_found(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs")
    logs.lines[FIRST][8:10] = reversed(logs.lines[FIRST][8:10])
    logs.write()
    result = verify_logs([tmp_path / "logs"])
    assert [(found.rule, found.message) for found in result.breaks] == [
        (OUT_OF_ORDER, "record 8 stands behind record 9")
    ]
    # In one batch; in two, the first lacks a record when the second is read.
    assert audit_folder(tmp_path / "logs", tmp_path / "output").findings == {OUT_OF_ORDER: 1}


def test_a_file_named_for_later_lines_than_it_has_is_found(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs")
    logs.write()
    early, late = (tmp_path / "logs" / CONTROLLER / str(SegmentName(CONTROLLER, FIRST, first)) for first in (6, 8))
    early.rename(late)
    result = verify_logs([tmp_path / "logs"])
    message = "record 6 is in a file named for 8 and later ones"
    assert [(found.rule, found.message) for found in result.breaks] == [(OUT_OF_ORDER, message)]
    assert audit_folder(tmp_path / "logs", tmp_path / "output").findings == {OUT_OF_ORDER: 1}


# The command


def command(*arguments: str) -> tuple[int, dict[str, object]]:
    answer = CliRunner().invoke(app, ["verify", *arguments, "-o", "json"])
    return answer.exit_code, json.loads(answer.stdout)


@pytest.mark.parametrize(
    ("fault", "code"), [(nothing, ExitCode.OK), (cut, ExitCode.FINDINGS), (first_log_gone, ExitCode.INCOMPLETE)]
)
def test_the_exit_code_is_that_of_the_verdict(fault: Callable[[Logs], None], code: int, tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fault(logs)
    logs.write()
    assert command("--log-dir", str(tmp_path))[0] == code


def test_an_empty_folder_is_incomplete(tmp_path: Path) -> None:
    code, document = command("--log-dir", str(tmp_path))
    assert (code, document["verdict"], document["records"]) == (ExitCode.INCOMPLETE, "incomplete", 0)


def test_a_file_that_cannot_be_read_is_incomplete(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write()
    (tmp_path / "x.jsonl").mkdir()
    shutil.copytree(tmp_path / BROKER, tmp_path / "copy.jsonl")
    code, document = command("--log-dir", str(tmp_path))
    assert code != ExitCode.REFUSED
    assert document["verdict"] in {"incomplete", "findings"}


def test_heads_are_given_by_a_file(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs")
    path = tmp_path / "heads.json"
    path.write_bytes(encode_heads_file([logs.head(SECOND, 11)]))
    del logs.lines[SECOND][9:]
    logs.write()
    code, document = command("--log-dir", str(tmp_path / "logs"), "--heads", str(path))
    assert (code, document["ends"]) == (
        ExitCode.FINDINGS,
        "not checked of broker-1: there is no head of the newest log",
    )


def test_a_malformed_file_of_heads_is_wrong_usage_that_names_field_and_value(tmp_path: Path) -> None:
    path = tmp_path / "heads.json"
    path.write_text('{"version":1,"heads":[{"node":"broker-1","incarnation":"1700000000000.1","seq":-3,"digest":"x"}]}')
    answer = CliRunner().invoke(app, ["verify", "--log-dir", str(tmp_path), "--heads", str(path)])
    assert answer.exit_code == ExitCode.USAGE
    assert "seq" in answer.output
    assert "-3" in answer.output


def test_the_heads_of_a_cluster_are_read_by_who_calls_the_audit(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    head = logs.head(SECOND, 11)
    del logs.lines[SECOND][9:]
    logs.write()
    asked = []

    def read_heads(zookeeper: str, bootstrap: str, command_config: Path | None) -> list[GivenHead]:
        asked.append((zookeeper, bootstrap, command_config))
        return [head]

    arguments = ["verify", "--log-dir", str(tmp_path), "--zookeeper", "localhost:1"]
    arguments += ["--command-config", str(tmp_path / "admin")]
    answer = CliRunner().invoke(app, arguments, obj=Joined(read_heads, lambda: pytest.fail("nothing is replayed")))
    assert (answer.exit_code, asked) == (ExitCode.FINDINGS, [("localhost:1", "", tmp_path / "admin")])
