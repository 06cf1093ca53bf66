"""The audit takes records of moves between log directories as sound, and names those that it cannot understand."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from audit.reading.unclear_records import unclear_records
from audit.records.columns import to_columns
from state_log.histories import PartitionHistory
from state_log.invariants import check_partition
from state_log.record import Cause, Kind, LoggedStateChange
from tests.audit_corpus.logs import BROKER, SOUND_LOGS, Logs, Record
from tests.audits.log_audits import audit_folder

MOVE = LoggedStateChange(
    kind=Kind.DIRECTORY_MOVE,
    v=2,
    seq=1,
    node="broker-1",
    incarnation="1700000000000.1",
    at_ms=1000,
    cause=Cause("AlterReplicaLogDirs"),
    topic="t",
    partition=0,
    broker=1,
    to_state="started",
    reason="from /a to /b",
)


def add_moves(records: list[Record]) -> None:
    """Two moves of a replica in the log of its broker, after it has taken a role."""
    at = max(n for n, record in enumerate(records) if record["kind"] == "role" and record["to_state"] == "follower")
    role = records[at]
    kept = {name: role[name] for name in ("v", "node", "incarnation", "at_ms", "topic", "topic_id", "partition")}
    move = {**kept, "kind": "directory_move", "broker": role["broker"], "reason": "from /a to /b"}
    cause = {"event": "AlterReplicaLogDirs"}
    states = ("started", "abandoned", "started", "completed")
    records[at + 1 : at + 1] = [{**move, "cause": cause, "to_state": state} for state in states]


def test_moves_in_a_log_are_no_finding(tmp_path: Path) -> None:
    shutil.copytree(SOUND_LOGS, tmp_path / "logs")
    before = audit_folder(tmp_path / "logs", tmp_path / "before")
    Logs(tmp_path / "logs").write_wrongly(BROKER, add_moves)
    after = audit_folder(tmp_path / "logs", tmp_path / "after")
    assert after.records == before.records + 4
    assert (after.verdict, after.incomplete) == (before.verdict, before.incomplete)


def test_each_step_of_a_move_is_sound() -> None:
    steps = [replace(MOVE, seq=n, to_state=state) for n, state in enumerate(("started", "abandoned", "completed"))]
    history = PartitionHistory()
    assert [check_partition(history, step) for step in steps] == [[], [], []]
    assert unclear_records(to_columns(steps)) == {}


@pytest.mark.parametrize("changes", [{"to_state": "done"}, {"topic": None, "partition": None}])
def test_a_move_that_says_nothing_known_is_named(changes: dict[str, str | None]) -> None:
    [unclear] = unclear_records(to_columns([replace(MOVE, **changes)])).values()
    assert unclear.count == 1
    assert "of kind directory_move" in unclear.example
