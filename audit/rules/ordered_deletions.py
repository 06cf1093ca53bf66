"""Replicas that brokers deleted, and whether a controller had ordered it: until its log was read they wait.

A controller records that the deletion of a replica has started before it tells the broker. What waits at the end is
judged by `audit.report.open_conditions`. Brokers name the topic's id in these records since release 0.3.
"""

from typing import Final

import numpy
import pyarrow

from audit.records.orders import sorted_order
from audit.records.sorted_runs import Runs
from audit.records.vectors import (
    ABSENT,
    Flags,
    Keys,
    Longs,
    are_present,
    group_starts,
    is_one_of,
    keys,
    longs,
    mixed,
)
from audit.rules.deleted_partitions import DELETIONS
from audit.rules.recreations import compared
from audit.rules.rule import KEY, REFERENCE, Awaited, BucketBatch, Explanation, Kept, Rule
from audit.rules.subjects import NAMED
from cluster.model.state_machines import ReplicaState
from state_log.record import Kind

DELETED_BY_ORDER: Final = "replica-deleted-by-order"
_ORDERS: Final = pyarrow.schema(KEY)
_DELETED: Final = pyarrow.schema(
    {**KEY, "broker": pyarrow.int32(), "cause_controller_epoch": pyarrow.int32(), **REFERENCE}
)
"""One row for each deletion of a replica by its broker. `sub`: the number of the record."""
_READ: Final = ("key", "kind", "broker", "to_state", "topic_id", "controller_epoch", "cause_controller_epoch")


def _orders_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Find the replicas whose deletion controllers started, reduced."""
    started = [ReplicaState.DELETION_STARTED.value]
    chosen = is_one_of(rows["kind"], [Kind.REPLICA.value]) & is_one_of(rows["to_state"], started)
    chosen &= (keys(rows["key"]) != 0) & are_present(rows["broker"]) & are_present(rows["controller_epoch"])
    part = rows.select(_READ).filter(pyarrow.array(chosen))
    key = _replica_keys(keys(part["key"]), longs(part["broker"]))
    return reduce_orders(pyarrow.table([key, longs(part["controller_epoch"])], schema=_ORDERS))


def _replica_keys(partition: Keys, broker: Longs) -> Keys:
    return mixed(partition ^ mixed((broker + 2).astype(numpy.uint64)))


def reduce_orders(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and controller epoch; keep one row of each."""
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order])]))


ORDERS: Final = Kept("deletion_orders", _ORDERS, lambda batch: _orders_of(batch.rows), reduce_orders)
"""The deletions of replicas that were started. `key`: of a partition and a broker; `sub`: the controller epoch."""


def _unordered(batch: BucketBatch) -> pyarrow.Table:
    rows = batch.rows
    deleted = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], ["deleted"])
    waiting = [compared(batch.awaited(UNORDERED), batch)]
    if deleted.any():
        waiting.append(batch.subjects.named(_deleted(rows, deleted)))
    found = pyarrow.concat_tables(waiting)
    if not found.num_rows:
        return found
    # Of a topic that is gone, a broker may have kept a replica until later.
    gone = numpy.isin(keys(found["key"]), keys(batch.added(DELETIONS)["key"]))
    gone |= _has(batch.runs(DELETIONS), keys(found["key"]), None)
    orders = batch.runs(ORDERS).with_open(batch.added(ORDERS))
    replica = _replica_keys(keys(found["key"]), longs(found["broker"]))
    gone |= _has(orders, replica, longs(found["cause_controller_epoch"]))
    return found.filter(pyarrow.array(~gone))


def _deleted(rows: pyarrow.Table, deleted: Flags) -> pyarrow.Table:
    """Read these deletions by brokers, of topics with an id, as _DELETED."""
    deleted = deleted & are_present(rows["topic_id"]) & (longs(rows["cause_controller_epoch"]) != ABSENT)
    deleted &= (keys(rows["key"]) != 0) & are_present(rows["broker"])
    part = rows.select([*_DELETED.names[:1], *_DELETED.names[2:]]).filter(pyarrow.array(deleted))
    return pyarrow.table([part["key"], part["seq"], *(part[name] for name in _DELETED.names[2:])], schema=_DELETED)


def _has(runs: Runs, key: Keys, sub: Longs | None) -> Flags:
    """Whether the runs have a row of each key, or of each (key, sub); aligned with these."""
    found = numpy.zeros(len(key), bool)
    at = numpy.zeros(len(key), numpy.int64) if sub is None else sub
    for run in runs.every():
        bounds = run.find(key, at)
        found |= (bounds.start < bounds.stop) if sub is None else (bounds.first < bounds.end)
    return found


UNORDERED: Final = Awaited("unordered", pyarrow.schema([*_DELETED, *NAMED]), _unordered)
"""The deletions of replicas that no controller has ordered in the controller epoch that the broker names."""
RULE: Final = Rule(
    explains={
        DELETED_BY_ORDER: Explanation(
            "critical",
            "A broker deletes a replica only after a controller has recorded that its deletion started.",
            "the broker's log before the record: who sent the StopReplica; the replica has to be made again",
            kafka="the lines of deletions do not name the topic's id",
        )
    },
    reads=(*_READ, *REFERENCE, *NAMED.names),
    check=lambda _: (),
    keeps=(ORDERS,),
    awaits=(UNORDERED,),
    since=9,
)
