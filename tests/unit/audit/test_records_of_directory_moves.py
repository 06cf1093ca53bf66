"""The audit takes records of moves between log directories as sound, and names those that it cannot understand."""

import pytest
from msgspec.structs import replace

from audit.reading.unclear_records import unclear_records
from audit.records.columns import to_columns
from state_log.histories import PartitionHistory
from state_log.invariants import check_partition
from state_log.record import Cause, Kind, LoggedStateChange

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
