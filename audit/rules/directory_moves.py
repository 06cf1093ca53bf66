"""Moves of replicas between the log directories of a broker: each ends once.

Compared is what one run of a broker recorded in turn: a move that a restart interrupted continues without a record.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.orders import sorted_order
from audit.records.vectors import group_starts, is_one_of, keys, longs, mixed, ranks
from audit.rules.machine_steps import log_keys
from audit.rules.neighbouring import Neighbours, neighbours_of
from audit.rules.rule import KEY, TEXT, BucketBatch, Explanation, Kept, Rule
from audit.rules.subjects import Subjects, reference
from state_log.record import Kind

DIRECTORY_MOVE_ENDS_ONCE: Final = "directory-move-ends-once"
_STARTED: Final = "started"
_SCHEMA: Final = pyarrow.schema(
    {
        **KEY,
        "partition_key": pyarrow.uint64(),
        "to_state": TEXT,
        "at_ms": pyarrow.int64(),
        "node": TEXT,
        "incarnation": TEXT,
    }
)
"""One row for each record of a move. `key`: of a partition and a run; `sub`: the number of the record."""
_READ: Final = ("key", "kind", "to_state", "at_ms", "node", "incarnation", "seq")


def directory_moves_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read the moves between directories in these records, reduced."""
    chosen = is_one_of(rows["kind"], [Kind.DIRECTORY_MOVE.value]) & (keys(rows["key"]) != 0)
    if not chosen.any():
        return _SCHEMA.empty_table()
    part = rows.select(_READ).filter(pyarrow.array(chosen))
    key = mixed(log_keys(part) ^ keys(part["key"]))
    columns = [key, part["seq"], part["key"], *(part[name] for name in _SCHEMA.names[3:])]
    return reduce_directory_moves(pyarrow.table(columns, schema=_SCHEMA))


def reduce_directory_moves(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and `sub`; keep one row of each, the same in whatever order they came."""
    rows = rows.unify_dictionaries()
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((ranks(rows["to_state"]), longs(rows["at_ms"]), sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order])]))


DIRECTORY_MOVES: Final = Kept(
    "directory_moves", _SCHEMA, lambda batch: directory_moves_of(batch.rows), reduce_directory_moves
)


def _check(batch: BucketBatch) -> list[AuditFinding]:
    before, now = (_found(found, batch.subjects) for found in neighbours_of(batch, DIRECTORY_MOVES))
    return changes(before, now)


def _found(found: Neighbours, subjects: Subjects) -> Iterator[AuditFinding]:
    rows, (before, after) = found
    started = is_one_of(rows["to_state"], [_STARTED])
    wrong = numpy.flatnonzero(~started[before] & ~started[after])
    for place in wrong.tolist():
        pair = rows.take(pyarrow.array([before[place], after[place]])).to_pylist()
        yield subjects.finding(_violation(*({**row, "seq": row["sub"]} for row in pair)))


def _violation(first: Mapping[str, Any], second: Mapping[str, Any]) -> RuleViolation:
    name = reference(second)
    message = (
        f"{second['node']} recorded that a move to another log directory is {second['to_state']}, and none had started "
        f"since record {first['seq']}, where it was {first['to_state']}"
    )
    records = reference(first), name
    return RuleViolation(
        DIRECTORY_MOVE_ENDS_ONCE, second["partition_key"], f"record {name}", message, records, second["at_ms"]
    )


RULE: Final = Rule(
    explains={
        DIRECTORY_MOVE_ENDS_ONCE: Explanation(
            "error",
            "A move of a replica to another log directory ends once after it has started.",
            "the broker's log between the two records, and in which directory the replica is",
            kafka="the log does not say where replicas are on a disk",
            of_whole_logs=True,
        )
    },
    reads=_READ,
    check=_check,
    keeps=(DIRECTORY_MOVES,),
)
