"""Reassignments and deletions that take too long: from a record that begins one to the next record about it.

The records of a partition or topic are ordered by controller epoch and number: a controller epoch belongs to one run of
one controller.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy
import pyarrow
from msgspec import Struct

from audit.records.findings import Finding, Violation, changes
from audit.records.sorted_runs import Run, gather_all
from audit.records.vectors import ABSENT, group_starts, is_one_of, keys, longs
from audit.rules.durations import OPEN
from audit.rules.subjects import Subjects, reference, reference_at
from cluster.model.state_machines import PartitionState
from state_log.causes import utc_text
from state_log.record import Kind

REASSIGNMENT_STALLED: Final = "reassignment-without-progress"
DELETION_STALLED: Final = "deletion-without-progress"
_TEXT: Final = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
STEPS: Final = pyarrow.schema(
    {
        "key": pyarrow.uint64(),
        "sub": pyarrow.int64(),
        "begins": pyarrow.bool_(),
        "at_ms": pyarrow.int64(),
        "node": _TEXT,
        "incarnation": _TEXT,
        "seq": pyarrow.int64(),
    }
)
"""Records that begin a reassignment or end one. `sub`: controller epoch and number."""


class DeletionStep(Struct, frozen=True, order=True):
    """A record that begins a deletion or ends it."""

    controller_epoch: int
    seq: int
    at_ms: int
    begins: bool
    record: str


class CheckedSteps(NamedTuple):
    findings: list[Finding]
    open: pyarrow.Table


def steps_of(rows: pyarrow.Table) -> pyarrow.Table:
    """What these records say of reassignments, as STEPS, reduced."""
    assignments = is_one_of(rows["kind"], [Kind.ASSIGNMENT.value])
    begins = assignments & is_one_of(rows["to_state"], ["started"])
    ends = assignments & is_one_of(rows["to_state"], ["completed", "cancelled"])
    ends |= is_one_of(rows["kind"], [Kind.PARTITION.value]) & is_one_of(
        rows["to_state"], [PartitionState.NON_EXISTENT.value]
    )
    epoch, seq = longs(rows["controller_epoch"]), longs(rows["seq"])
    chosen = (begins | ends) & (epoch != ABSENT) & (keys(rows["key"]) != 0)
    part = rows.select(["key", *STEPS.names[3:]]).filter(pyarrow.array(chosen))
    sub = (epoch << 32) + numpy.clip(seq, 0, (1 << 32) - 1)
    columns = [
        *(part["key"], pyarrow.array(sub[chosen]), pyarrow.array(begins[chosen])),
        *(part[name] for name in ("at_ms", "node", "incarnation", "seq")),
    ]
    return reduce_steps(pyarrow.table(columns, schema=STEPS))


def reduce_steps(rows: pyarrow.Table) -> pyarrow.Table:
    """Sorted by key, controller epoch and number; each once."""
    rows = rows.unify_dictionaries()
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = numpy.lexsort((longs(rows["at_ms"]), sub, key))
    return rows.take(order[group_starts(key[order], sub[order])])


def check_steps(
    runs: Sequence[Run], new: pyarrow.Table, before: pyarrow.Table, limit_ms: int, subjects: Subjects
) -> CheckedSteps:
    """What the new steps change about findings, and what is open after them. `before`: what was open, as OPEN."""
    if not new.num_rows:
        return CheckedSteps([], before)
    key = numpy.unique(keys(new["key"]))
    known = gather_all(runs, key, STEPS.empty_table())
    now = reduce_steps(pyarrow.concat_tables([known, new]))
    old, found = ({f.name: f for f in _stalled(table, limit_ms, subjects)} for table in (reduce_steps(known), now))
    kept = before.filter(pyarrow.array(~numpy.isin(keys(before["key"]), key)))
    return CheckedSteps(changes(old, found), pyarrow.concat_tables([kept, _still_open(now, subjects)]))


def add_deletions(deletions: dict[str, list[DeletionStep]], rows: pyarrow.Table) -> set[str]:
    """Add what these records say of deletions of topics, by topic and id; returns which topics have new steps."""
    changed: set[str] = set()
    kinds = is_one_of(rows["kind"], [Kind.DELETION.value, Kind.TOPIC.value])
    for row in rows.filter(pyarrow.array(kinds)).to_pylist():
        begins = row["kind"] == Kind.DELETION and row["to_state"] == "started"
        if row["controller_epoch"] is None or not (begins or row["to_state"] in {"completed", "deleted", "removed"}):
            continue
        name = row["topic"] if row["topic_id"] is None else f"{row['topic']} ({row['topic_id']})"
        step = DeletionStep(row["controller_epoch"], row["seq"], row["at_ms"], begins, reference(row))
        known = deletions.setdefault(name, [])
        if step not in known:
            known.append(step)
            known.sort()
            changed.add(name)
    return changed


def stalled_deletions(name: str, steps: Sequence[DeletionStep], limit_ms: int) -> dict[tuple[str, str], Finding]:
    """The deletions of a topic that took too long, by the finding's name."""
    found = {}
    for step, after in pairwise(steps):
        if step.begins and after.at_ms - step.at_ms > limit_ms:
            message = _text("the deletion of the topic", after.at_ms - step.at_ms, step.at_ms, limit_ms)
            subject, records = f"{name} record {step.record}", (step.record, after.record)
            finding = Finding(
                DELETION_STALLED, subject, message, records, topic=name.partition(" ")[0], at_ms=after.at_ms
            )
            found[finding.name] = finding
    return found


def open_deletions(deletions: Mapping[str, Sequence[DeletionStep]]) -> Iterator[dict[str, Any]]:
    """Rows of OPEN of the deletions that have not ended."""
    for name, steps in sorted(deletions.items()):
        if steps and steps[-1].begins:
            topic, _, topic_id = name.partition(" ")
            yield {
                "rule": DELETION_STALLED,
                "since_ms": steps[-1].at_ms,
                "elapsed_ms": 0,
                "at_ms": steps[-1].at_ms,
                "record": steps[-1].record,
                "topic": topic,
                "topic_id": topic_id.strip("()") or None,
                "partition": None,
            }


def _stalled(steps: pyarrow.Table, limit_ms: int, subjects: Subjects) -> Iterator[Finding]:
    key, at_ms = keys(steps["key"]), longs(steps["at_ms"])
    begins = steps["begins"].combine_chunks().to_numpy(zero_copy_only=False)
    late = (key[1:] == key[:-1]) & begins[:-1] & (at_ms[1:] - at_ms[:-1] > limit_ms)
    for row in numpy.flatnonzero(late).tolist():
        message = _text("the reassignment", int(at_ms[row + 1] - at_ms[row]), int(at_ms[row]), limit_ms)
        records = reference_at(steps, row), reference_at(steps, row + 1)
        subject = f"record {records[0]}"
        violation = Violation(REASSIGNMENT_STALLED, int(key[row]), subject, message, records, int(at_ms[row + 1]))
        yield subjects.finding(violation)


def _still_open(steps: pyarrow.Table, subjects: Subjects) -> pyarrow.Table:
    key, at_ms = keys(steps["key"]), longs(steps["at_ms"])
    last = numpy.append(key[1:] != key[:-1], [True])[: len(key)]
    last &= steps["begins"].combine_chunks().to_numpy(zero_copy_only=False)
    rows = [
        {
            "key": int(key[row]),
            "sub": int(longs(steps["sub"])[row]),
            "rule": REASSIGNMENT_STALLED,
            "since_ms": int(at_ms[row]),
            "elapsed_ms": 0,
            "at_ms": int(at_ms[row]),
            "record": reference_at(steps, row),
        }
        for row in numpy.flatnonzero(last).tolist()
    ]
    table = pyarrow.Table.from_pylist(rows, pyarrow.schema([OPEN.field(name) for name in OPEN.names[:7]]))
    return subjects.named(table) if rows else OPEN.empty_table()


def _text(what: str, ms: int, since_ms: int, limit_ms: int) -> str:
    return f"{what} took {ms / 1000:.0f} s from {utc_text(since_ms)} to the next step: more than {limit_ms // 1000} s"
