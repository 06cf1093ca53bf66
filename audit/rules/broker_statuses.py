"""What a controller knew of brokers and replicas when it wrote a record: live, shutting down, dead, or offline.

The records of brokers are of no partition, and every bucket gets them. A controller's log orders them with those of its
elections; what another controller knew does not count. A table keeps all of them, because the record that a status is
asked for may be read later.
"""

from collections.abc import Mapping
from typing import Final

import numpy
import pyarrow
from numpy.typing import NDArray

from audit.records.orders import sorted_order
from audit.records.sorted_runs import NOTHING, SortedRun, neighbours
from audit.records.vectors import (
    ABSENT,
    Flags,
    Keys,
    Longs,
    are_in_order,
    group_starts,
    is_one_of,
    keys,
    longs,
    mixed,
    ranked,
    text_hashes,
)
from audit.rules.rule import KEY, BucketBatch, Kept
from cluster.model.state_machines import ReplicaState
from state_log.record import Kind

_NOTHING: Final = -1
UNKNOWN, LIVE, SHUTTING_DOWN, DEAD, OFFLINE = range(5)
Statuses = NDArray[numpy.int64]
_SCHEMA: Final = pyarrow.schema({**KEY, "status": pyarrow.int8()})
_OF_BROKERS: Final = {"live": LIVE, "changed": LIVE, "bounced": LIVE, "shutting_down": SHUTTING_DOWN, "dead": DEAD}
_OF_REPLICAS: Final = {
    ReplicaState.ONLINE.value: LIVE,
    ReplicaState.OFFLINE.value: OFFLINE,
    # What was said of an earlier replica on the broker does not hold for the next one.
    ReplicaState.NON_EXISTENT.value: UNKNOWN,
}
STATUSES_READ: Final = (
    "key",
    "kind",
    "node",
    "incarnation",
    "seq",
    "controller_epoch",
    "broker",
    "to_state",
    "inputs_live",
)
"""The columns of records that statuses are made of."""


def statuses_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read what these records say of brokers and replicas, reduced."""
    said = [_said(rows, Kind.BROKER, _OF_BROKERS), _said(rows, Kind.REPLICA, _OF_REPLICAS), _live_at_start(rows)]
    return reduce_statuses(pyarrow.concat_tables(said))


def _said(rows: pyarrow.Table, kind: Kind, statuses: Mapping[str, int]) -> pyarrow.Table:
    places = numpy.flatnonzero(is_one_of(rows["kind"], [kind.value]))
    part = rows.select(STATUSES_READ).take(pyarrow.array(places))
    state, states = ranked(part["to_state"])
    # The last one is for records without a state.
    status = numpy.array([*(statuses.get(name, _NOTHING) for name in states), _NOTHING], numpy.int64)[state]
    broker = longs(part["broker"])
    chosen = (status != _NOTHING) & (broker != ABSENT) & (longs(part["controller_epoch"]) != ABSENT)
    part, broker, status = part.filter(pyarrow.array(chosen)), broker[chosen], status[chosen]
    return _table(_keys(part, broker, keys(part["key"])), longs(part["seq"]), status)


def _live_at_start(rows: pyarrow.Table) -> pyarrow.Table:
    """The brokers that were live when a controller became active, as its record says."""
    chosen = is_one_of(rows["kind"], [Kind.CONTROLLER.value]) & (longs(rows["controller_epoch"]) != ABSENT)
    part = rows.select(STATUSES_READ).filter(pyarrow.array(chosen))
    named = part["inputs_live"].combine_chunks()
    each = part.take(pyarrow.compute.list_parent_indices(named))
    broker = named.flatten().to_numpy(zero_copy_only=False).astype(numpy.int64)
    return _table(_keys(each, broker, keys(each["key"])), longs(each["seq"]), numpy.full(len(broker), LIVE))


def _keys(rows: pyarrow.Table, broker: Longs, partition: Keys) -> Keys:
    """A hash of a controller's term, a broker, and a partition, 0 for all of them; aligned."""
    if not len(broker):
        return numpy.empty(0, numpy.uint64)
    term = mixed(text_hashes(rows["node"]) ^ mixed(text_hashes(rows["incarnation"])))
    term = mixed(term + longs(rows["controller_epoch"]).astype(numpy.uint64))
    return mixed(mixed(term + broker.astype(numpy.uint64)) ^ partition)


def _table(key: Keys, seq: Longs, status: Longs) -> pyarrow.Table:
    return pyarrow.table([key, seq, status.astype(numpy.int8)], schema=_SCHEMA)


def reduce_statuses(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and number of the record; keep one row of each."""
    key, seq = keys(rows["key"]), longs(rows["sub"])
    if are_in_order(key, seq):
        return rows
    order = sorted_order((seq, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], seq[order])]))


STATUSES: Final = Kept("statuses", _SCHEMA, lambda batch: statuses_of(batch.rows), reduce_statuses)
"""One row for each record of a broker or replica (`sub`: its number). `key`: of a term, a broker and a partition, which
is 0 for the broker as a whole.
"""


class KnownStatuses:
    """What controllers have said of brokers and replicas, up to the end of a batch."""

    def __init__(self, batch: BucketBatch) -> None:
        self._runs = [*batch.runs(STATUSES).every(), SortedRun(batch.added(STATUSES))]

    def of_brokers(self, rows: pyarrow.Table, broker: Longs) -> Statuses:
        """The status of a broker when each row was written, aligned with the rows; UNKNOWN where nothing says it."""
        return self._before(_keys(rows, broker, numpy.zeros(len(broker), numpy.uint64)), longs(rows["seq"]))

    def of_replicas(self, rows: pyarrow.Table, broker: Longs) -> Statuses:
        """The same of the broker's replica of each row's partition."""
        return self._before(_keys(rows, broker, keys(rows["key"])), longs(rows["seq"]))

    def next_of_brokers(self, rows: pyarrow.Table, broker: Longs) -> Longs:
        """Find the number of the next record about a broker in the term of each row; NOTHING where there is none."""
        key = _keys(rows, broker, numpy.zeros(len(broker), numpy.uint64))
        return neighbours(self._runs, key, longs(rows["seq"]))[1]

    def _before(self, key: Keys, seq: Longs) -> Statuses:
        latest, status = numpy.full(len(key), NOTHING), numpy.full(len(key), UNKNOWN, numpy.int64)
        for run in self._runs:
            bounds = run.find(key, seq)
            known: Flags = bounds.first > bounds.start
            if not known.any():
                continue
            place = bounds.first[known] - 1
            newer = run.sub[place] > latest[known]
            which = numpy.flatnonzero(known)[newer]
            latest[which] = run.sub[place[newer]]
            status[which] = longs(run.rows["status"])[place[newer]]
        return status
