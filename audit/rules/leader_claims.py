"""At most one leader in each leader epoch, over the records of controllers, leaders and followers."""

from collections.abc import Iterator
from typing import Any, Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import gather
from audit.records.vectors import (
    ABSENT,
    are_in_order,
    by_reference,
    group_starts,
    is_one_of,
    keys,
    longs,
    order_in_groups,
    unique_pairs,
)
from audit.rules.recreations import comparable, earlier
from audit.rules.rule import KEY, REFERENCE, BucketBatch, Explanation, Kept, Rule
from audit.rules.subjects import Subjects, reference
from state_log.histories import ONE_LEADER_PER_EPOCH
from state_log.record import Kind

CLAIMS_SCHEMA: Final = pyarrow.schema({**KEY, "leader": pyarrow.int32(), **REFERENCE})


def claims_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The leaders that these records name, reduced."""
    leader, epoch, broker = longs(rows["leader"]), longs(rows["leader_epoch"]), longs(rows["broker"])
    is_role = is_one_of(rows["kind"], [Kind.ROLE.value])
    leads = is_role & is_one_of(rows["to_state"], ["leader"])
    leader = numpy.where(leads & (broker != ABSENT), broker, leader)
    # A follower that was not told of a leader says nothing of the epoch.
    chosen = (leader != ABSENT) & (epoch != ABSENT) & ~(is_role & ~leads & (leader < 0)) & (keys(rows["key"]) != 0)
    part = rows.select(["key", "leader_epoch", *REFERENCE]).filter(pyarrow.array(chosen))
    columns = [
        part["key"],
        part["leader_epoch"].cast(pyarrow.int64()),
        pyarrow.array(leader[chosen], pyarrow.int32()),
        *(part[name] for name in REFERENCE),
    ]
    return reduce_claims(pyarrow.table(columns, schema=CLAIMS_SCHEMA))


def reduce_claims(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key, leader epoch, leader; keep the first record of each by time, node, incarnation and number."""
    rows = rows.unify_dictionaries()
    key, sub, leader = keys(rows["key"]), longs(rows["sub"]), longs(rows["leader"])
    if are_in_order(key, sub, leader):
        return rows
    order = sorted_order((leader, sub, key))
    starts = group_starts(key[order], sub[order], leader[order])
    order = order_in_groups(order, starts, lambda chosen: by_reference(rows, chosen))
    return rows.take(order[starts])


CLAIMS: Final = Kept("claims", CLAIMS_SCHEMA, lambda batch: claims_of(comparable(batch)), reduce_claims, Sealing())
"""One row for each leader (-1: none) that a record names in a leader epoch (`sub`)."""


def _check(batch: BucketBatch) -> list[AuditFinding]:
    new = batch.added(CLAIMS)
    if not new.num_rows:
        return []
    touched = unique_pairs(keys(new["key"]), longs(new["sub"]))
    known = gather(batch.runs(CLAIMS), *touched, CLAIMS_SCHEMA.empty_table())
    now = reduce_claims(pyarrow.concat_tables([known, new]))
    return changes(_contradictions(reduce_claims(known), batch.subjects), _contradictions(now, batch.subjects))


def _contradictions(claims: pyarrow.Table, subjects: Subjects) -> Iterator[AuditFinding]:
    key, sub = keys(claims["key"]), longs(claims["sub"])
    starts = group_starts(key, sub)
    ends = numpy.append(starts[1:], len(key))
    for start, end in zip(starts[ends - starts > 1].tolist(), ends[ends - starts > 1].tolist(), strict=True):
        rows = sorted(claims.slice(start, end - start).to_pylist(), key=_reference_order)
        epoch = rows[0]["sub"]
        violation = RuleViolation(
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


RULE: Final = Rule(
    explains={
        ONE_LEADER_PER_EPOCH: Explanation(
            "critical",
            "In one leader epoch at most one broker leads, over the records of all controllers and brokers.",
            "the records of both brokers, and whether both took produce requests in that epoch",
            kafka="INFO",
        )
    },
    reads=("key", "kind", "broker", "to_state", "leader", "leader_epoch", *REFERENCE),
    check=_check,
    keeps=(CLAIMS,),
    withdraw=lambda batch: changes(_contradictions(earlier(batch, CLAIMS), batch.subjects), ()),
)
