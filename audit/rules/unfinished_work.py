"""Reassignments and deletions that take too long: from the record that begins one to the next record about it.

The records of a partition or topic are ordered by controller epoch and number: a controller epoch belongs to one run of
one controller.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy
import pyarrow
from msgspec import Struct

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.sorted_runs import gather_all
from audit.records.vectors import ABSENT, Flags, Longs, earliest, is_one_of, keys, longs
from audit.rules.durations import OPEN_SCHEMA, OPEN_UNNAMED
from audit.rules.recreations import comparable, compared
from audit.rules.rule import KEY, NO_WORK, REFERENCE, Awaited, BucketBatch, Explanation, Kept, Rule, once
from audit.rules.subjects import Subjects, reference, reference_at
from cluster.model.state_machines import PartitionState
from state_log.causes import utc_text
from state_log.record import Kind

REASSIGNMENT_STALLED: Final = "reassignment-without-progress"
DELETION_STALLED: Final = "deletion-without-progress"
_SCHEMA: Final = pyarrow.schema({**KEY, "begins": pyarrow.bool_(), **REFERENCE})
_SEQ_MAX: Final = (1 << 32) - 1


class DeletionStep(Struct, frozen=True, order=True):
    """A record that begins a deletion or ends it."""

    controller_epoch: int
    seq: int
    at_ms: int
    begins: bool
    record: str


def in_log_order(controller_epoch: Longs, seq: Longs) -> Longs:
    """Make one number for each record, which orders them by controller epoch and number."""
    return (controller_epoch << 32) + numpy.clip(seq, 0, _SEQ_MAX)


def steps_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read what these records say of reassignments, reduced."""
    assignments = is_one_of(rows["kind"], [Kind.ASSIGNMENT.value])
    begins = assignments & is_one_of(rows["to_state"], ["started"])
    ends = assignments & is_one_of(rows["to_state"], ["completed", "cancelled"])
    ends |= is_one_of(rows["kind"], [Kind.PARTITION.value]) & is_one_of(
        rows["to_state"], [PartitionState.NON_EXISTENT.value]
    )
    epoch, seq = longs(rows["controller_epoch"]), longs(rows["seq"])
    chosen = (begins | ends) & (epoch != ABSENT) & (keys(rows["key"]) != 0)
    part = rows.select(["key", *REFERENCE]).filter(pyarrow.array(chosen))
    columns = [
        *(part["key"], pyarrow.array(in_log_order(epoch, seq)[chosen]), pyarrow.array(begins[chosen])),
        *(part[name] for name in REFERENCE),
    ]
    return earliest(pyarrow.table(columns, schema=_SCHEMA))


STEPS: Final = Kept("steps", _SCHEMA, lambda batch: steps_of(comparable(batch)), earliest)
"""Records that begin a reassignment or end one. `sub`: controller epoch and number."""


@once
def _steps(batch: BucketBatch) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Gather all known steps of the partitions that have new ones, reduced: before the batch, and with it."""
    new = batch.added(STEPS)
    known = gather_all(batch.runs(STEPS), numpy.unique(keys(new["key"])), _SCHEMA.empty_table())
    return earliest(known), earliest(pyarrow.concat_tables([known, new]))


def _check(batch: BucketBatch) -> list[AuditFinding]:
    before, now = (_stalled(steps, batch.limits.reassignment_ms, batch.subjects) for steps in _steps(batch))
    return changes(before, now)


def _reassigning(batch: BucketBatch) -> pyarrow.Table:
    before, now = compared(batch.awaited(REASSIGNING), batch), _steps(batch)[1]
    kept = before.filter(pyarrow.array(~numpy.isin(keys(before["key"]), keys(now["key"]))))
    return pyarrow.concat_tables([kept, _still_open(now, batch.subjects)])


REASSIGNING: Final = Awaited("reassigning", OPEN_SCHEMA, _reassigning)
"""Reassignments that have not ended. `sub`: controller epoch and number of the record that began it."""


def add_deletions(deletions: dict[str, list[DeletionStep]], rows: pyarrow.Table) -> set[str]:
    """Add what these records say of deletions of topics, by topic and id; return the topics that have new steps."""
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


def stalled_deletions(name: str, steps: Sequence[DeletionStep], limit_ms: int) -> Iterator[AuditFinding]:
    """The deletions of a topic that took too long. `steps`: sorted."""
    for step, after in pairwise(steps):
        if step.begins and after.at_ms - step.at_ms > limit_ms:
            message = _text("the deletion of the topic", after.at_ms - step.at_ms, step.at_ms, limit_ms)
            subject, records = f"{name} record {step.record}", (step.record, after.record)
            yield AuditFinding(
                DELETION_STALLED, subject, message, records, topic=name.partition(" ")[0], at_ms=after.at_ms
            )


def open_deletions(deletions: Mapping[str, Sequence[DeletionStep]]) -> Iterator[dict[str, Any]]:
    """Yield a row of `durations.OPEN` for each deletion that has not ended. `deletions`: by topic and id."""
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


def _stalled(steps: pyarrow.Table, limit_ms: int, subjects: Subjects) -> Iterator[AuditFinding]:
    key, at_ms = keys(steps["key"]), longs(steps["at_ms"])
    late = (key[1:] == key[:-1]) & _begin(steps)[:-1] & (at_ms[1:] - at_ms[:-1] > limit_ms)
    for row in numpy.flatnonzero(late).tolist():
        message = _text("the reassignment", int(at_ms[row + 1] - at_ms[row]), int(at_ms[row]), limit_ms)
        records = reference_at(steps, row), reference_at(steps, row + 1)
        subject = f"record {records[0]}"
        violation = RuleViolation(REASSIGNMENT_STALLED, int(key[row]), subject, message, records, int(at_ms[row + 1]))
        yield subjects.finding(violation)


def _still_open(steps: pyarrow.Table, subjects: Subjects) -> pyarrow.Table:
    """The last steps that begin something, as OPEN_SCHEMA. `steps`: reduced."""
    key, at_ms = keys(steps["key"]), longs(steps["at_ms"])
    last = numpy.append(key[1:] != key[:-1], [True])[: len(key)]
    last &= _begin(steps)
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
    return subjects.named(pyarrow.Table.from_pylist(rows, OPEN_UNNAMED)) if rows else OPEN_SCHEMA.empty_table()


def _begin(steps: pyarrow.Table) -> Flags:
    return numpy.asarray(steps["begins"].combine_chunks().to_numpy(zero_copy_only=False), bool)


def _text(what: str, ms: int, since_ms: int, limit_ms: int) -> str:
    return f"{what} took {ms / 1000:.0f} s from {utc_text(since_ms)} to the next step: more than {limit_ms // 1000} s"


RULE: Final = Rule(
    explains={
        REASSIGNMENT_STALLED: Explanation(
            "error",
            "A reassignment is completed or cancelled within the limit.",
            "whether the new replicas are live and catch up; `klamm reassign list`",
            NO_WORK,
        )
    },
    reads=("key", "kind", "to_state", "controller_epoch", *REFERENCE),
    check=_check,
    keeps=(STEPS,),
    awaits=(REASSIGNING,),
)
