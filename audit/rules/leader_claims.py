"""At most one leader in each leader epoch, over the records of controllers, leaders and followers."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy
import pyarrow

from audit.records.findings import Finding, Violation, changes
from audit.records.sorted_runs import Run, gather
from audit.records.vectors import (
    ABSENT,
    are_in_order,
    by_reference,
    group_starts,
    is_one_of,
    keys,
    longs,
    order_in_groups,
)
from audit.rules.subjects import Subjects, reference
from state_log.histories import ONE_LEADER_PER_EPOCH
from state_log.record import Kind

_TEXT: Final = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
CLAIMS: Final = pyarrow.schema(
    {
        "key": pyarrow.uint64(),
        "sub": pyarrow.int64(),
        "leader": pyarrow.int32(),
        "at_ms": pyarrow.int64(),
        "node": _TEXT,
        "incarnation": _TEXT,
        "seq": pyarrow.int64(),
    }
)
"""One row for each leader (-1: none) that a record names in a leader epoch (`sub`)."""


def claims_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The leaders that these records name, as CLAIMS, reduced."""
    leader, epoch, broker = longs(rows["leader"]), longs(rows["leader_epoch"]), longs(rows["broker"])
    is_role = is_one_of(rows["kind"], [Kind.ROLE.value])
    leads = is_role & is_one_of(rows["to_state"], ["leader"])
    leader = numpy.where(leads & (broker != ABSENT), broker, leader)
    # A follower that was not told of a leader says nothing of the epoch.
    chosen = (leader != ABSENT) & (epoch != ABSENT) & ~(is_role & ~leads & (leader < 0)) & (keys(rows["key"]) != 0)
    part = rows.select(["key", "leader_epoch", *CLAIMS.names[3:]]).filter(pyarrow.array(chosen))
    columns = [
        part["key"],
        part["leader_epoch"].cast(pyarrow.int64()),
        pyarrow.array(leader[chosen], pyarrow.int32()),
        *(part[name] for name in ("at_ms", "node", "incarnation", "seq")),
    ]
    return reduce_claims(pyarrow.table(columns, schema=CLAIMS))


def reduce_claims(rows: pyarrow.Table) -> pyarrow.Table:
    """Sorted by key, leader epoch, leader; of each the first record by time, node, incarnation and number."""
    rows = rows.unify_dictionaries()
    key, sub, leader = keys(rows["key"]), longs(rows["sub"]), longs(rows["leader"])
    if are_in_order(key, sub, leader):
        return rows
    order = numpy.lexsort((leader, sub, key))
    starts = group_starts(key[order], sub[order], leader[order])
    order = order_in_groups(order, starts, lambda chosen: by_reference(rows, chosen))
    return rows.take(order[starts])


def check_claims(runs: Sequence[Run], new: pyarrow.Table, subjects: Subjects) -> list[Finding]:
    """What the new claims, with those of the runs, change about the findings."""
    if not new.num_rows:
        return []
    starts = group_starts(keys(new["key"]), longs(new["sub"]))
    known = gather(runs, keys(new["key"])[starts], longs(new["sub"])[starts], CLAIMS.empty_table())
    before = {f.name: f for f in _contradictions(reduce_claims(known), subjects)}
    now = {f.name: f for f in _contradictions(reduce_claims(pyarrow.concat_tables([known, new])), subjects)}
    return changes(before, now)


def _contradictions(claims: pyarrow.Table, subjects: Subjects) -> Iterator[Finding]:
    key, sub = keys(claims["key"]), longs(claims["sub"])
    starts = group_starts(key, sub)
    ends = numpy.append(starts[1:], len(key))
    for start, end in zip(starts[ends - starts > 1].tolist(), ends[ends - starts > 1].tolist(), strict=True):
        rows = sorted(claims.slice(start, end - start).to_pylist(), key=_reference_order)
        epoch = rows[0]["sub"]
        violation = Violation(
            ONE_LEADER_PER_EPOCH,
            int(key[start]),
            f"leader-epoch {epoch}",
            f"leader epoch {epoch} has {' and '.join(_describe(row['leader']) for row in rows)}",
            tuple(reference(row) for row in rows),
            rows[-1]["at_ms"],
        )
        yield subjects.finding(violation)


def _reference_order(row: dict[str, Any]) -> tuple[object, ...]:
    return row["at_ms"], row["node"], row["incarnation"], row["seq"]


def _describe(leader: int) -> str:
    return f"leader {leader}" if leader >= 0 else "no leader"
