"""The reassignments of partitions: when each began and how it ended, and from which replicas to which."""

from collections.abc import Iterator
from typing import Any, Final

import numpy
import pyarrow

from audit.records.orders import sorted_order
from audit.records.sorted_runs import gather_all
from audit.records.vectors import group_starts, is_one_of, keys, longs
from audit.rules.rule import KEY, BucketBatch, Kept
from audit.rules.subjects import NAMED, reference
from audit.rules.unfinished_work import in_log_order
from audit.storage.table_schemas import REASSIGNMENTS_TABLE
from audit.tables.revisions import revised
from state_log.record import Kind

_SCHEMA: Final = pyarrow.schema(
    {
        **KEY,
        **dict(zip(NAMED.names, NAMED.types, strict=True)),
        "to_state": pyarrow.string(),
        "controller_epoch": pyarrow.int32(),
        "at_ms": pyarrow.int64(),
        "replicas": pyarrow.list_(pyarrow.int32()),
        "adding": pyarrow.list_(pyarrow.int32()),
        "removing": pyarrow.list_(pyarrow.int32()),
        "record": pyarrow.string(),
    }
)
_STATES: Final = ["started", "completed", "cancelled"]
REPLACED: Final = "replaced"


def assignments_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read what these records say of reassignments, reduced."""
    chosen = is_one_of(rows["kind"], [Kind.ASSIGNMENT.value]) & is_one_of(rows["to_state"], _STATES)
    chosen &= longs(rows["controller_epoch"]) >= 0
    found = []
    columns = ("key", "topic", "topic_id", "partition", "to_state", "controller_epoch", "at_ms", "replicas")
    further = ("adding_replicas", "removing_replicas", "node", "incarnation", "seq")
    part = rows.select([*columns, *further]).filter(pyarrow.array(chosen))
    order = in_log_order(longs(part["controller_epoch"]), longs(part["seq"]))
    for row, sub in zip(part.to_pylist(), order.tolist(), strict=True):
        lists = {"adding": row["adding_replicas"], "removing": row["removing_replicas"]}
        record = reference(row)
        found.append({**{name: row[name] for name in columns}, **lists, "sub": sub, "record": record})
    return reduce_assignments(pyarrow.Table.from_pylist(found, _SCHEMA))


def reduce_assignments(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by partition, controller epoch and number; keep one row of each."""
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order])]))


ASSIGNMENTS: Final = Kept("assignments", _SCHEMA, lambda batch: assignments_of(batch.rows), reduce_assignments)
"""Records about reassignments. `sub`: controller epoch and number, by which they are ordered."""


def revised_reassignments(batch: BucketBatch) -> pyarrow.Table:
    """Compute what a batch changes about the table."""
    new = batch.added(ASSIGNMENTS)
    earlier = gather_all(batch.runs(ASSIGNMENTS), numpy.unique(keys(new["key"])), _SCHEMA.empty_table())
    now = reduce_assignments(pyarrow.concat_tables([earlier, new]))
    return revised(REASSIGNMENTS_TABLE, _rows(reduce_assignments(earlier)), _rows(now))


def _rows(assignments: pyarrow.Table) -> Iterator[dict[str, Any]]:
    open_one: dict[str, Any] | None = None
    key = None
    for record in assignments.to_pylist():
        if open_one is not None and record["key"] != key:
            yield open_one
            open_one = None
        key = record["key"]
        begins = record["to_state"] == "started"
        if open_one is not None:
            yield _ended(open_one, record, REPLACED if begins else record["to_state"])
            open_one = None
        elif not begins:
            # Its start is in a log that was not read.
            yield _ended(_started(record, began=False), record, record["to_state"])
        if begins:
            open_one = _started(record, began=True)
    if open_one is not None:
        yield open_one


def _started(record: dict[str, Any], *, began: bool) -> dict[str, Any]:
    replicas, adding, removing = (record[name] for name in ("replicas", "adding", "removing"))
    known = began and None not in (replicas, adding, removing)
    return {
        **{name: record[name] for name in ("topic", "topic_id", "partition", "record", "controller_epoch")},
        "started_ms": record["at_ms"] if began else None,
        "until_ms": None,
        "ended": None,
        "duration_ms": None,
        "replicas_before": [broker for broker in replicas if broker not in adding] if known else None,
        "replicas_after": [broker for broker in replicas if broker not in removing] if known else None,
        "adding": adding if began else None,
        "removing": removing if began else None,
        "last_record": None,
    }


def _ended(row: dict[str, Any], record: dict[str, Any], ended: str) -> dict[str, Any]:
    duration = None if row["started_ms"] is None else max(0, record["at_ms"] - row["started_ms"])
    after = row["replicas_after"] if ended == REPLACED else record["replicas"]
    ending = {"until_ms": record["at_ms"], "ended": ended, "duration_ms": duration, "last_record": record["record"]}
    return {**row, **ending, "replicas_after": after}
