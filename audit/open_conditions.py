"""What waits at the end of the logs: roles that no controller gave, leaderships that nobody took.

These are findings only where the log that should have the rest was read beyond that time; where it is missing or ends
before, the audit is incomplete. They depend on how far the logs were read, so they are no rows of the findings' table.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from audit.applied_states import Waiting
from audit.cluster_state import ClusterState
from audit.findings import Finding
from audit.output_folder import Commit, OutputFolder

EPOCH_NEVER_GIVEN: Final = "epoch-nobody-gave"
LEADERSHIP_NEVER_TAKEN: Final = "leadership-never-taken"
APPLY_WITHIN_MS: Final = 60_000
"""How long an agent may take to record a leadership that a controller gave it."""


class Open(NamedTuple):
    """`unknown`: conditions that a log which was not read, or not far enough, may explain."""

    findings: list[Finding]
    unknown: list[Finding]


def open_conditions(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> Open:
    """The conditions at the end of what was read. Raises OutputError."""
    found = Open([], [])
    # A controller's log that is absent, begins late or has gaps may hold any state.
    controllers = {name: log for name, log in state.incarnations.items() if name.startswith("controller-")}
    named = {f"controller-{controller}" for controller in (() if commit is None else commit.controllers)}
    has_all = named <= {name.partition("/")[0] for name in controllers}
    has_all = has_all and not any(log.missing for log in controllers.values())
    for row in _waiting(folder, commit, "unwritten"):
        finding = _finding(EPOCH_NEVER_GIVEN, row, f"{row['node']} applied {_state(row)}, which no controller wrote")
        (found.findings if has_all else found.unknown).append(finding)
    for row in _waiting(folder, commit, "untaken"):
        node = f"broker-{row['leader']}"
        last = state.last_at_ms.get(node)
        if row["leader"] < 0 or last is None or last < row["at_ms"] + APPLY_WITHIN_MS:
            continue
        finding = _finding(LEADERSHIP_NEVER_TAKEN, row, f"{node} never recorded that it leads: {_state(row)}")
        has_gaps = any(log.missing for name, log in state.incarnations.items() if name.startswith(f"{node}/"))
        (found.unknown if has_gaps else found.findings).append(finding)
    return found


def _waiting(folder: OutputFolder, commit: Commit | None, table: str) -> Iterator[dict[str, Any]]:
    assert table in Waiting._fields, table
    for bucket in () if commit is None else commit.buckets.values():
        for run in folder.runs(bucket.runs.get(table, ())):
            yield from run.rows.to_pylist()


def _finding(rule: str, row: Mapping[str, Any], message: str) -> Finding:
    name = f"{row['topic']}-{row['partition']}"
    name = name if row["topic_id"] is None else f"{name} ({row['topic_id']})"
    subject = f"{name} partition-epoch {row['sub']}"
    record = f"{row['node']}/{row['incarnation']}/{row['seq']}"
    where = {"topic": row["topic"], "topic_id": row["topic_id"], "partition": row["partition"], "at_ms": row["at_ms"]}
    return Finding(rule, subject, message, (record,), **where)


def _state(row: Mapping[str, Any]) -> str:
    return f"partition epoch {row['sub']}, leader {row['leader']}, leader epoch {row['leader_epoch']}, ISR {row['isr']}"
