"""The leader epochs that their leaders took up, as their records of roles say."""

from typing import Final

import numpy
import pyarrow

from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
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
from audit.rules.recreations import comparable
from audit.rules.rule import KEY, REFERENCE, Kept
from state_log.record import Kind

_UNKNOWN: Final = 1 << 40
_SCHEMA: Final = pyarrow.schema(
    {
        **KEY,
        "partition_epoch": pyarrow.int64(),
        "min_insync_replicas": pyarrow.int32(),
        "cause_controller_epoch": pyarrow.int32(),
        **REFERENCE,
    }
)
TAKEN_READ: Final = ("key", "kind", "to_state", "leader", "broker", "leader_epoch", *_SCHEMA.names[2:])
"""The columns of records that they are made of."""


def taken_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The leader epochs that their leaders took up, reduced."""
    leader, broker = longs(rows["leader"]), longs(rows["broker"])
    own = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], ["leader"])
    own &= (leader == broker) & (broker >= 0) & (longs(rows["leader_epoch"]) != ABSENT)
    part = rows.select(["key", "leader_epoch", *_SCHEMA.names[2:]]).filter(pyarrow.array(own))
    columns = [
        part["key"],
        *(part[name].cast(pyarrow.int64()) for name in ("leader_epoch", "partition_epoch")),
        *(part[name] for name in _SCHEMA.names[3:]),
    ]
    return reduce_taken(pyarrow.table(columns, schema=_SCHEMA))


def reduce_taken(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and leader epoch; make one row of each."""
    rows = rows.unify_dictionaries()
    key, sub = keys(rows["key"]), longs(rows["sub"])
    if are_in_order(key, sub):
        return rows
    order = sorted_order((sub, key))
    starts = group_starts(key[order], sub[order])
    order = order_in_groups(order, starts, lambda chosen: by_reference(rows, chosen))
    minimum = longs(rows["min_insync_replicas"])[order]
    least = numpy.minimum.reduceat(numpy.where(minimum == ABSENT, _UNKNOWN, minimum), starts)
    values = pyarrow.array(least, pyarrow.int64(), mask=least == _UNKNOWN).cast(pyarrow.int32())
    return rows.take(order[starts]).set_column(3, "min_insync_replicas", values)


TAKEN: Final = Kept("taken", _SCHEMA, lambda batch: taken_of(comparable(batch)), reduce_taken, Sealing())
"""Leader epochs (`sub`) in which the leader has recorded its role: the first such record by time, node, incarnation and
number, and the least `min_insync_replicas` of all of them (null: none has it).
"""


_ANSWERS: Final = pyarrow.schema({**KEY, "answered_ms": pyarrow.int64()})
ANSWERS_READ: Final = (*TAKEN_READ, "silent_ms")
"""The columns of records that they are made of."""


def answers_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Find when leaders answered last those that followed them and lead now, reduced."""
    known = (longs(rows["silent_ms"]) != ABSENT) & is_one_of(rows["kind"], [Kind.ROLE.value])
    part = rows.select(["key", "leader_epoch", "at_ms", "silent_ms"]).filter(pyarrow.array(known))
    answered_ms = longs(part["at_ms"]) - longs(part["silent_ms"])
    epoch = part["leader_epoch"].cast(pyarrow.int64())
    return reduce_answers(pyarrow.table([part["key"], epoch, answered_ms], schema=_ANSWERS).filter(epoch.is_valid()))


def reduce_answers(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and leader epoch; keep the first time of each."""
    key, sub, answered_ms = keys(rows["key"]), longs(rows["sub"]), longs(rows["answered_ms"])
    order = sorted_order((answered_ms, sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order])]))


ANSWERS: Final = Kept(
    "answers", _ANSWERS, lambda batch: answers_of(comparable(batch)), reduce_answers, Sealing(("answered_ms",))
)
"""Leader epochs (`sub`) whose leader had followed the one before: when that one answered it last, by its clock."""
