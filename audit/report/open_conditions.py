"""What waits at the end of the logs: roles that no controller gave, leaderships that nobody took.

These are findings only where the log that should have the rest was read beyond that time; where it is missing or ends
before, the audit is incomplete. They depend on how far the logs were read, so they are no rows of the findings' table.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from audit.batches.cluster_state import ClusterState
from audit.chains.witnesses import Witnessed
from audit.records.findings import AuditFinding
from audit.rules.applied_states import UNTAKEN, UNWRITTEN
from audit.rules.rule import Awaited
from audit.rules.subjects import reference
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from state_log.chain import IncarnationLog
from state_log.histories import NO_EPOCH

EPOCH_NEVER_GIVEN: Final = "epoch-nobody-gave"
LEADERSHIP_NEVER_TAKEN: Final = "leadership-never-taken"
_NAMED_MAX: Final = 20
APPLY_WITHIN_MS: Final = 60_000
"""How long an agent may take to record a leadership that a controller gave it."""


class Open(NamedTuple):
    """Holds what waits at the end. `unknown`: conditions that a log which was not read, or not far enough, may
    explain.
    """

    findings: list[AuditFinding]
    unknown: list[AuditFinding]


def open_conditions(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> Open:
    """The conditions at the end of what was read. Raises OutputError."""
    found = Open([], [])
    add_unwritten(found, list(_waiting(folder, commit, UNWRITTEN)), commit, state)
    for row in _waiting(folder, commit, UNTAKEN):
        node = f"broker-{row['leader']}"
        last = state.last_at_ms.get(node)
        if row["leader"] < 0 or last is None or last < row["at_ms"] + APPLY_WITHIN_MS:
            continue
        subject = f"{_partition(row)} partition-epoch {row['sub']}"
        finding = _finding(
            LEADERSHIP_NEVER_TAKEN, subject, [row], f"{node} never recorded that it leads: {_state(row)}"
        )
        has_gaps = any(log.missing for name, log in state.incarnations.items() if name.startswith(f"{node}/"))
        (found.unknown if has_gaps else found.findings).append(finding)
    return found


def _has_all_controllers(commit: Commit | None, state: ClusterState) -> bool:
    """Whether every state that controllers wrote was read.

    A controller's log that is absent, begins late, has gaps or malformed lines, or ends before what others have seen of
    it, may hold any state.
    """
    controllers = {name: log for name, log in state.incarnations.items() if name.startswith("controller-")}
    named = {f"controller-{controller}" for controller in (() if commit is None else commit.controllers)}
    return (
        named <= {name.partition("/")[0] for name in controllers}
        and not any(log.missing for log in controllers.values())
        and not any(log.startswith("controller-") for log in state.malformed)
        and all(_goes_on(log, seen, controllers) for log, seen in state.witnessed.items())
    )


def _goes_on(log: str, seen: Mapping[str, Witnessed], logs: Mapping[str, IncarnationLog]) -> bool:
    if not log.startswith("controller-"):
        return True
    return log in logs and all(each.seq < logs[log].next_seq for each in seen.values())


def add_unwritten(found: Open, rows: Sequence[Mapping[str, Any]], commit: Commit | None, state: ClusterState) -> None:
    """Add one condition for each controller epoch of these states, rows of UNWRITTEN."""
    has_all = _has_all_controllers(commit, state)
    last = max((ms for node, ms in state.last_at_ms.items() if node.startswith("controller-")), default=0)
    by_epoch: dict[int, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["at_ms"], row["node"], row["incarnation"], row["seq"])):
        by_epoch.setdefault(row["last_controller_epoch"], []).append(row)
    for epoch, group in sorted(by_epoch.items()):
        first = group[0]
        name = "an unknown controller epoch" if epoch == NO_EPOCH else f"controller epoch {epoch}"
        more = "" if len(group) == 1 else f", and {len(group) - 1} more of {name}"
        message = f"{first['node']} applied {_partition(first)}: {_state(first)}, which no controller wrote{more}"
        finding = _finding(EPOCH_NEVER_GIVEN, name, group[:_NAMED_MAX], message)
        latest_ms = max(row["at_ms"] for row in group)
        goes_on = latest_ms < last if epoch == NO_EPOCH else was_read_beyond(epoch, latest_ms, state)
        (found.findings if has_all and goes_on else found.unknown).append(finding)


def was_read_beyond(epoch: int, at_ms: int, state: ClusterState) -> bool:
    """Whether the log of the controller of this epoch has all that it wrote until then.

    It does where it has a later record, or where the node's next run, in the same boot of the machine, names the end of
    the log. Without either the end may not have been copied yet, or a power failure may have taken it.
    """
    logs = {record.rpartition("/")[0] for record in state.active.get(epoch, ())}
    return bool(logs) and all(state.spans[log].last_at_ms > at_ms or _has_ended(log, state) for log in logs)


def _has_ended(log: str, state: ClusterState) -> bool:
    later = (state.spans.get(each.witness) for each in state.witnessed.get(log, {}).values() if each.is_own)
    boot = state.spans[log].boot_id
    return any(span is not None and span.boot_id == boot != "" for span in later)


def _waiting(folder: OutputFolder, commit: Commit | None, table: Awaited) -> Iterator[dict[str, Any]]:
    for bucket in () if commit is None else commit.buckets.values():
        for run in folder.runs(bucket.runs.get(table.name, ())):
            yield from run.rows.to_pylist()


def _finding(rule: str, subject: str, rows: Sequence[Mapping[str, Any]], message: str) -> AuditFinding:
    records = tuple(reference(row) for row in rows)
    names = ("topic", "topic_id", "partition", "at_ms")
    return AuditFinding(rule, subject, message, records, **{name: rows[0][name] for name in names})


def _partition(row: Mapping[str, Any]) -> str:
    name = f"{row['topic']}-{row['partition']}"
    return name if row["topic_id"] is None else f"{name} ({row['topic_id']})"


def _state(row: Mapping[str, Any]) -> str:
    return f"partition epoch {row['sub']}, leader {row['leader']}, leader epoch {row['leader_epoch']}, ISR {row['isr']}"
