"""The states of partitions as records have them: contents of their state znodes, one for each partition epoch."""

from typing import Any, Final

import numpy
import pyarrow
import pyarrow.compute

from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import SortedRun
from audit.records.vectors import (
    ABSENT,
    BrokerLists,
    Flags,
    Keys,
    Longs,
    are_in_order,
    by_reference,
    group_starts,
    is_one_of,
    keys,
    longs,
    mixed,
    order_in_groups,
)
from audit.rules.recreations import comparable
from audit.rules.rule import KEY, REFERENCE, TEXT, Kept
from audit.rules.subjects import reference
from state_log.causes import ISR_WRITTEN, READ_FROM_LEADER
from state_log.histories import NO_EPOCH, WRITTEN_BY_CONTROLLERS
from state_log.record import Kind

STATES: Final = pyarrow.schema(
    {
        **KEY,
        "content": pyarrow.uint64(),
        "leader_epoch": pyarrow.int32(),
        "leader": pyarrow.int32(),
        "isr": pyarrow.list_(pyarrow.int32()),
        "first_controller_epoch": pyarrow.int32(),
        "last_controller_epoch": pyarrow.int32(),
        **REFERENCE,
    }
)
"""One row for each content at a partition epoch (`sub`). `content`: a hash of leader, leader epoch and the members of
the ISR. Controllers of the first to the last controller epoch knew it as current; the reference is that of the first
record by first controller epoch, time, node, incarnation and number. Where a leader wrote the state, the first
controller epoch is NO_EPOCH, and the last one too if no controller has read it.
"""
_FURTHER: Final = {"replicas": pyarrow.list_(pyarrow.int32()), "cause_event": TEXT, "cause_id": pyarrow.int64()}
WRITTEN_SCHEMA: Final = pyarrow.schema(
    {**dict(zip(STATES.names, STATES.types, strict=True)), **_FURTHER, "reason": TEXT}
)
"""States that controllers or leaders wrote, and what led to them."""
_PARTS: Final = (
    *("key", "partition_epoch", "leader_epoch", "leader", "isr", "controller_epoch"),
    *WRITTEN_SCHEMA.names[WRITTEN_SCHEMA.get_field_index("at_ms") :],
)
STATES_READ: Final = ("kind", *_PARTS)
"""The columns of records that states are made of."""


def states_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The states that controllers name in these records, and those that leaders wrote; reduced."""
    by_controllers = is_one_of(rows["kind"], [kind.value for kind in WRITTEN_BY_CONTROLLERS])
    by_controllers &= longs(rows["controller_epoch"]) != ABSENT
    by_leaders = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["cause_event"], [ISR_WRITTEN])
    part, states = state_rows(rows, by_controllers | by_leaders)
    # The controller that has read what a leader wrote did not write it, nor the one that the leader obeyed then.
    by_leader = is_one_of(part["reason"], [READ_FROM_LEADER]) | is_one_of(part["cause_event"], [ISR_WRITTEN])
    first = numpy.where(by_leader, NO_EPOCH, longs(states["first_controller_epoch"]))
    place = states.schema.get_field_index("first_controller_epoch")
    states = states.set_column(place, "first_controller_epoch", pyarrow.array(first, pyarrow.int32()))
    further = [part[name] for name in WRITTEN_SCHEMA.names[len(STATES) :]]
    return reduce_states(pyarrow.table([*states.columns, *further], schema=WRITTEN_SCHEMA))


def state_rows(rows: pyarrow.Table, chosen: Flags) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Take the chosen records that have all of a state, and their states as STATES; both have the same rows."""
    part = rows.select(_PARTS).filter(pyarrow.array(chosen))
    leader, leader_epoch = longs(part["leader"]), longs(part["leader_epoch"])
    isr = BrokerLists(part["isr"])
    present = isr.present & (leader != ABSENT) & (leader_epoch != ABSENT) & (keys(part["key"]) != 0)
    present &= longs(part["partition_epoch"]) != ABSENT
    content = mixed(mixed(leader.astype(numpy.uint64)) + leader_epoch.astype(numpy.uint64)) + isr.set_hashes()
    if not present.all():
        part, content = part.filter(pyarrow.array(present)), content[present]
    columns = [
        part["key"],
        part["partition_epoch"].cast(pyarrow.int64()),
        pyarrow.array(content),
        *(part[name] for name in ("leader_epoch", "leader", "isr")),
        # An agent does not know who wrote an ISR that it was granted.
        *[pyarrow.compute.fill_null(part["controller_epoch"], NO_EPOCH)] * 2,
        *(part[name] for name in REFERENCE),
    ]
    return part, pyarrow.table(columns, schema=STATES)


def reduce_states(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key, partition epoch, content; make one row of each. For STATES and WRITTEN."""
    rows = rows.unify_dictionaries()
    key, sub, content = keys(rows["key"]), longs(rows["sub"]), keys(rows["content"])
    if are_in_order(key, sub, content):
        return rows
    order = sorted_order((content, sub, key))
    starts = group_starts(key[order], sub[order], content[order])
    if len(starts) == len(order):
        return rows.take(order)
    order = order_in_groups(order, starts, lambda chosen: _by_first_controller(rows, chosen))
    reduced = rows.take(order[starts])
    for name, reduce in (("first_controller_epoch", numpy.minimum), ("last_controller_epoch", numpy.maximum)):
        values = reduce.reduceat(longs(rows[name])[order], starts)
        reduced = reduced.set_column(reduced.schema.get_field_index(name), name, pyarrow.array(values, pyarrow.int32()))
    return reduced


def _by_first_controller(rows: pyarrow.Table, chosen: Longs) -> tuple[Longs, ...]:
    """Sort columns of the chosen rows, the least significant first."""
    # Whoever wrote a state knew it first, whatever the clocks of later controllers say.
    return (*by_reference(rows, chosen), longs(rows["first_controller_epoch"].take(chosen)))


WRITTEN: Final = Kept("states", WRITTEN_SCHEMA, lambda batch: states_of(comparable(batch)), reduce_states, Sealing())
"""The states that controllers or leaders wrote."""


class Groups:
    """States by (key, partition epoch), one group for each, in this order.

    `states`: all contents; those of group i are rows `starts[i]` up to, not including, `ends[i]`, the first written
    first. `firsts`: the first of each group. Aligned with the groups are `starts`, `ends`, `firsts`, `key`, `sub`,
    `leader` and `leader_epoch` of the firsts, and the least and the greatest controller epoch of all contents.
    """

    def __init__(self, states: pyarrow.Table) -> None:
        """Group states. `states`: as STATES or WRITTEN, in any order."""
        states = reduce_states(states)
        key, sub = keys(states["key"]), longs(states["sub"])
        if not are_in_order(key, sub):
            places = numpy.arange(len(key))
            starts = group_starts(key, sub)
            states = states.take(order_in_groups(places, starts, lambda chosen: _by_first_controller(states, chosen)))
        self.states = states
        self.starts = group_starts(key, sub)
        self.ends = numpy.append(self.starts[1:], len(key))
        self.key, self.sub = key[self.starts], sub[self.starts]
        self.firsts = states if len(self.starts) == len(key) else states.take(self.starts)
        self.leader, self.leader_epoch = longs(self.firsts["leader"]), longs(self.firsts["leader_epoch"])
        self.first_controller_epoch = self._reduced(numpy.minimum, "first_controller_epoch")
        self.last_controller_epoch = self._reduced(numpy.maximum, "last_controller_epoch")

    def _reduced(self, reduce: numpy.ufunc, name: str) -> Longs:
        if not len(self.starts):
            return numpy.empty(0, numpy.int64)
        return numpy.asarray(reduce.reduceat(longs(self.states[name]), self.starts), numpy.int64)

    def where(self, key: Keys, sub: Longs) -> Longs:
        """The group of each (key, partition epoch), all of which exist."""
        return SortedRun(pyarrow.table({"key": self.key, "sub": self.sub})).find(key, sub).first

    def references(self, group: int) -> list[tuple[dict[str, Any], str]]:
        """The contents of a group, each with the name of its record."""
        rows = self.states.slice(self.starts[group], self.ends[group] - self.starts[group]).to_pylist()
        return [(row, reference(row)) for row in rows]


def describe_state(row: dict[str, Any]) -> str:
    """Say in words what a row of STATES has."""
    return f"leader {row['leader']}, leader epoch {row['leader_epoch']}, ISR {row['isr']}"
