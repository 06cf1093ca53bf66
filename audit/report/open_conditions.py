"""What waits at the end of the logs: roles that no controller gave, leaderships that nobody took, and replicas that
brokers deleted though no controller ordered it.

These are findings only where the log that should have the rest was read beyond that time; where it is missing or ends
before, the audit is incomplete. They depend on how far the logs were read, so they are no rows of the findings' table.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from audit.batches.cluster_state import ClusterState
from audit.chains.witnesses import Witnessed
from audit.records.findings import AuditFinding
from audit.records.orders import sorted_order
from audit.records.vectors import group_starts, longs
from audit.rules import ordered_deletions
from audit.rules.applied_states import UNTAKEN, UNWRITTEN
from audit.rules.ordered_deletions import DELETED_BY_ORDER, UNORDERED
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
    _add_unwritten(found, dict(_first_of_epochs(_waiting(folder, commit, UNWRITTEN))), commit, state)
    for row in _waiting(folder, commit, UNTAKEN).to_pylist():
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
    if commit is None or ordered_deletions.RULE.has_tables(commit.rules):
        _add_unordered(found, _waiting(folder, commit, UNORDERED), commit, state)
    return found


def _add_unordered(found: Open, rows: pyarrow.Table, commit: Commit | None, state: ClusterState) -> None:
    """Add one condition for each controller epoch in which replicas were deleted that nobody had ordered to delete."""
    has_all, by_epoch = _has_all_controllers(commit, state), dict[int, list[Mapping[str, Any]]]()
    for row in sorted(rows.to_pylist(), key=_by_time):
        by_epoch.setdefault(row["cause_controller_epoch"], []).append(row)
    for epoch, group in sorted(by_epoch.items()):
        first = group[0]
        more = "" if len(group) == 1 else f", and {len(group) - 1} more"
        message = (
            f"{first['node']} deleted its replica of {_partition(first)} in controller epoch {epoch}, which no "
            f"controller ordered{more}"
        )
        finding = _finding(DELETED_BY_ORDER, f"controller epoch {epoch}", group[:_NAMED_MAX], message)
        is_decided = has_all and was_read_beyond(epoch, group[-1]["at_ms"], state)
        (found.findings if is_decided else found.unknown).append(finding)


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


class _Unwritten(NamedTuple):
    """States of one controller epoch that no controller wrote: the first, their number, and the time of the last."""

    first: Sequence[Mapping[str, Any]]
    number: int
    latest_ms: int


def add_unwritten(found: Open, rows: Sequence[Mapping[str, Any]], commit: Commit | None, state: ClusterState) -> None:
    """Add one condition for each controller epoch of these states, rows of UNWRITTEN."""
    by_epoch: dict[int, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=_by_time):
        by_epoch.setdefault(row["last_controller_epoch"], []).append(row)
    groups = {
        epoch: _Unwritten(group[:_NAMED_MAX], len(group), max(row["at_ms"] for row in group))
        for epoch, group in by_epoch.items()
    }
    _add_unwritten(found, groups, commit, state)


def _first_of_epochs(rows: pyarrow.Table) -> Iterator[tuple[int, _Unwritten]]:
    """Yield the states of each controller epoch.

    While the logs of brokers are read ahead of those of controllers a million may wait: only the first become rows.
    """
    epoch, at_ms = longs(rows["last_controller_epoch"]), longs(rows["at_ms"])
    order = sorted_order((at_ms, epoch))
    epoch, at_ms = epoch[order], at_ms[order]
    for first, end in pairwise([*group_starts(epoch).tolist(), len(order)]):
        times = at_ms[first:end]
        # With all of the same time, of which the names of their records decide which are first.
        named = int(numpy.searchsorted(times, times[min(_NAMED_MAX, len(times)) - 1], "right"))
        chosen = sorted(rows.take(pyarrow.array(order[first : first + named])).to_pylist(), key=_by_time)
        yield int(epoch[first]), _Unwritten(chosen[:_NAMED_MAX], end - first, int(times[-1]))


def _by_time(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["at_ms"], row["node"], row["incarnation"], row["seq"]


def _add_unwritten(found: Open, by_epoch: Mapping[int, _Unwritten], commit: Commit | None, state: ClusterState) -> None:
    has_all = _has_all_controllers(commit, state)
    last = max((ms for node, ms in state.last_at_ms.items() if node.startswith("controller-")), default=0)
    for epoch, group in sorted(by_epoch.items()):
        first = group.first[0]
        name = "an unknown controller epoch" if epoch == NO_EPOCH else f"controller epoch {epoch}"
        more = "" if group.number == 1 else f", and {group.number - 1} more of {name}"
        message = f"{first['node']} applied {_partition(first)}: {_state(first)}, which no controller wrote{more}"
        finding = _finding(EPOCH_NEVER_GIVEN, name, group.first, message)
        goes_on = group.latest_ms < last if epoch == NO_EPOCH else was_read_beyond(epoch, group.latest_ms, state)
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


def _waiting(folder: OutputFolder, commit: Commit | None, table: Awaited) -> pyarrow.Table:
    """Read what waits in all buckets. Raises OutputError."""
    buckets = () if commit is None else commit.buckets.values()
    runs = [run.rows for bucket in buckets for run in folder.runs(bucket.runs.get(table.name, ()))]
    return pyarrow.concat_tables([table.schema.empty_table(), *runs]).unify_dictionaries()


def _finding(rule: str, subject: str, rows: Sequence[Mapping[str, Any]], message: str) -> AuditFinding:
    records = tuple(reference(row) for row in rows)
    names = ("topic", "topic_id", "partition", "at_ms")
    return AuditFinding(rule, subject, message, records, **{name: rows[0][name] for name in names})


def _partition(row: Mapping[str, Any]) -> str:
    name = f"{row['topic']}-{row['partition']}"
    return name if row["topic_id"] is None else f"{name} ({row['topic_id']})"


def _state(row: Mapping[str, Any]) -> str:
    return f"partition epoch {row['sub']}, leader {row['leader']}, leader epoch {row['leader_epoch']}, ISR {row['isr']}"
