"""Rules between the states of a partition: the contents of its state znode, one for each partition epoch.

Records of all controllers are ordered by partition epoch, not by arrival. A state is compared with its neighbours; when
one arrives between two that were neighbours, what was found about these is judged anew. So the findings depend on the
records, not on the batches they came in. The rules are those of `state_log.histories`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy
import pyarrow
import pyarrow.compute

from audit.records.findings import Finding, Violation, changes
from audit.records.sorted_runs import NOTHING, Run, gather, neighbours
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
from audit.rules.subjects import Subjects, reference
from state_log.histories import (
    CONTROLLER_EPOCH_NEVER_BACK,
    LEADER_EPOCH_BY_ONE,
    LEADER_EPOCH_NEVER_BACK,
    LEADER_FROM_ISR,
    NO_EPOCH,
    ONE_STATE_PER_PARTITION_EPOCH,
    WRITTEN_BY_CONTROLLERS,
)

_TEXT: Final = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
STATES: Final = pyarrow.schema(
    {
        "key": pyarrow.uint64(),
        "sub": pyarrow.int64(),
        "content": pyarrow.uint64(),
        "leader_epoch": pyarrow.int32(),
        "leader": pyarrow.int32(),
        "isr": pyarrow.list_(pyarrow.int32()),
        "first_controller_epoch": pyarrow.int32(),
        "last_controller_epoch": pyarrow.int32(),
        "at_ms": pyarrow.int64(),
        "node": _TEXT,
        "incarnation": _TEXT,
        "seq": pyarrow.int64(),
    }
)
"""One row for each content: `sub` is the partition epoch. Controllers of the first to the last controller epoch knew it
as current; the reference is that of the first record by controller epoch, time, node, incarnation and number.
"""
WRITTEN: Final = pyarrow.schema(
    [
        *STATES,
        ("replicas", pyarrow.list_(pyarrow.int32())),
        ("cause_event", _TEXT),
        ("cause_id", pyarrow.int64()),
        ("reason", _TEXT),
    ]
)
"""States that controllers wrote, and what led to them."""
STATES_OF_RECORDS: Final = (
    *("key", "partition_epoch", "leader_epoch", "leader", "isr", "controller_epoch"),
    *WRITTEN.names[WRITTEN.get_field_index("at_ms") :],
)
"""The columns of records that states are made of."""


class Contents(NamedTuple):
    """Which records have all of a state, and a hash of leader, leader epoch and the members of the ISR."""

    present: Flags
    content: Keys


def contents(rows: pyarrow.Table) -> Contents:
    """Of each record of a partition."""
    leader, leader_epoch = longs(rows["leader"]), longs(rows["leader_epoch"])
    isr = BrokerLists(rows["isr"])
    present = isr.present & (leader != ABSENT) & (leader_epoch != ABSENT) & (keys(rows["key"]) != 0)
    present &= longs(rows["partition_epoch"]) != ABSENT
    content = mixed(mixed(leader.astype(numpy.uint64)) + leader_epoch.astype(numpy.uint64)) + isr.set_hashes()
    return Contents(present, content)


def states_of(rows: pyarrow.Table, found: Contents) -> pyarrow.Table:
    """The states that controllers name in these records, as WRITTEN, reduced. `found`: the records' contents."""
    chosen = is_one_of(rows["kind"], [kind.value for kind in WRITTEN_BY_CONTROLLERS]) & found.present
    chosen &= longs(rows["controller_epoch"]) != ABSENT
    part = rows.select(STATES_OF_RECORDS).filter(pyarrow.array(chosen))
    return reduce_states(with_columns(state_rows(part, found.content[chosen]), part, WRITTEN))


def state_rows(rows: pyarrow.Table, content: Keys) -> pyarrow.Table:
    """Records that have all of a state, as STATES."""
    return pyarrow.table(
        [
            rows["key"],
            rows["partition_epoch"].cast(pyarrow.int64()),
            pyarrow.array(content),
            *(rows[name] for name in ("leader_epoch", "leader", "isr")),
            # An agent does not know who wrote an ISR that it was granted.
            *[pyarrow.compute.fill_null(rows["controller_epoch"], NO_EPOCH)] * 2,
            *(rows[name] for name in ("at_ms", "node", "incarnation", "seq")),
        ],
        schema=STATES,
    )


def with_columns(table: pyarrow.Table, rows: pyarrow.Table, schema: pyarrow.Schema) -> pyarrow.Table:
    """A table with the further columns of a schema, from the rows that it was made of."""
    further = [name for name in schema.names if name not in table.schema.names]
    return pyarrow.table([*table.columns, *(rows[name] for name in further)], schema=schema)


def reduce_states(rows: pyarrow.Table) -> pyarrow.Table:
    """Sorted by key, partition epoch, content; one row for each. STATES or WRITTEN."""
    rows = rows.unify_dictionaries()
    key, sub, content = keys(rows["key"]), longs(rows["sub"]), keys(rows["content"])
    if are_in_order(key, sub, content):
        return rows
    order = numpy.lexsort((content, sub, key))
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
    """Sort columns of some rows, the least significant first."""
    # Whoever wrote a state knew it first, whatever the clocks of later controllers say.
    return (*by_reference(rows, chosen), longs(rows["first_controller_epoch"].take(chosen)))


class Groups:
    """States by (key, partition epoch): of each its first content, and what holds for all of its contents."""

    def __init__(self, states: pyarrow.Table) -> None:
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
        """The number of each (key, partition epoch), all of which are there."""
        return Run(pyarrow.table({"key": self.key, "sub": self.sub})).find(key, sub).first

    def references(self, group: int) -> list[tuple[dict[str, Any], str]]:
        rows = self.states.slice(self.starts[group], self.ends[group] - self.starts[group]).to_pylist()
        return [(row, reference(row)) for row in rows]


class Touched(NamedTuple):
    """The (key, partition epoch) of new states; `lower`, `higher`, `present`: `records.sorted_runs.neighbours`."""

    key: Keys
    sub: Longs
    lower: Longs
    higher: Longs
    present: Flags


class Pairs(NamedTuple):
    """Neighbours: numbers of groups."""

    before: Longs
    after: Longs


def check_states(runs: Sequence[Run], new: pyarrow.Table, subjects: Subjects) -> list[Finding]:
    """What the new states, with those of the runs, change about the findings."""
    if not new.num_rows:
        return []
    starts = group_starts(keys(new["key"]), longs(new["sub"]))
    key, sub = keys(new["key"])[starts], longs(new["sub"])[starts]
    lower, higher, present = neighbours(runs, key, sub)
    places = Touched(key, sub, lower, higher, present)
    near_key = numpy.concatenate((key, key[lower != NOTHING], key[higher != NOTHING]))
    near_sub = numpy.concatenate((sub, lower[lower != NOTHING], higher[higher != NOTHING]))
    near = Run(_unique(near_key, near_sub))
    known = gather(runs, near.key, near.sub, WRITTEN.empty_table())
    before, now = Groups(known), Groups(pyarrow.concat_tables([known, new]))
    old_pairs = _pairs_before(before, places)
    touched = numpy.zeros(len(now.key), bool)
    touched[now.where(key, sub)] = True
    found_before = {f.name: f for f in [*_contradictions(before, before.where(key[present], sub[present]), subjects)]}
    found_before |= {f.name: f for f in _of_pairs(before, old_pairs, subjects)}
    found_now = {f.name: f for f in _contradictions(now, numpy.flatnonzero(touched), subjects)}
    found_now |= {f.name: f for f in _of_pairs(now, _pairs_now(now, touched), subjects)}
    return changes(found_before, found_now)


def _unique(key: Keys, sub: Longs) -> pyarrow.Table:
    order = numpy.lexsort((sub, key))
    key, sub = key[order], sub[order]
    starts = group_starts(key, sub)
    return pyarrow.table({"key": key[starts], "sub": sub[starts]})


def _pairs_now(groups: Groups, touched: Flags) -> Pairs:
    same = groups.key[1:] == groups.key[:-1]
    before = numpy.flatnonzero(same & (touched[1:] | touched[:-1]))
    return Pairs(before, before + 1)


def _pairs_before(groups: Groups, touched: Touched) -> Pairs:
    """The pairs that have one of the touched in them, or are parted by one."""
    key, sub, lower, higher, present = touched
    has_lower, has_higher = lower != NOTHING, higher != NOTHING
    chosen = [
        (present & has_lower, lower, sub),
        (present & has_higher, sub, higher),
        (~present & has_lower & has_higher, lower, higher),
    ]
    befores = [groups.where(key[which], low[which]) for which, low, _ in chosen]
    afters = [groups.where(key[which], high[which]) for which, _, high in chosen]
    pairs = numpy.unique(numpy.stack((numpy.concatenate(befores), numpy.concatenate(afters))), axis=1)
    return Pairs(pairs[0], pairs[1])


def _contradictions(groups: Groups, which: Longs, subjects: Subjects) -> Iterator[Finding]:
    """More than one content at one partition epoch."""
    for group in which[groups.ends[which] - groups.starts[which] > 1].tolist():
        contents = groups.references(group)
        epoch = int(groups.sub[group])
        texts = " and as ".join(describe_state(row) for row, _ in contents)
        violation = Violation(
            ONE_STATE_PER_PARTITION_EPOCH,
            int(groups.key[group]),
            f"partition-epoch {epoch}",
            f"partition epoch {epoch} was written as {texts}",
            tuple(reference for _, reference in contents),
            contents[-1][0]["at_ms"],
        )
        yield subjects.finding(violation)


def _of_pairs(groups: Groups, pairs: Pairs, subjects: Subjects) -> Iterator[Finding]:
    for rule, violated in _violations(groups, pairs).items():
        for before, after in zip(pairs.before[violated].tolist(), pairs.after[violated].tolist(), strict=True):
            (first, first_record), (second, second_record) = (groups.references(n)[0] for n in (before, after))
            message = _MESSAGES[rule].format(
                before=first,
                after=second,
                first=groups.first_controller_epoch[after],
                last=groups.last_controller_epoch[before],
            )
            subject = f"partition-epoch {groups.sub[after]}"
            records = (first_record, second_record)
            violation = Violation(rule, int(groups.key[after]), subject, message, records, second["at_ms"])
            yield subjects.finding(violation)


def _violations(groups: Groups, pairs: Pairs) -> dict[str, Flags]:
    """Rule -> which pairs violate it."""
    a, b = pairs
    by_one = groups.sub[b] == groups.sub[a] + 1
    earlier, later = (BrokerLists(groups.firsts["isr"].take(pyarrow.array(n))) for n in pairs)
    leader = groups.leader[b]
    starts_own_isr = (later.lengths == 1) & later.contain(leader)
    return {
        LEADER_EPOCH_NEVER_BACK: groups.leader_epoch[b] < groups.leader_epoch[a],
        LEADER_EPOCH_BY_ONE: by_one & (groups.leader_epoch[b] > groups.leader_epoch[a] + 1),
        LEADER_FROM_ISR: by_one & (leader >= 0) & ~earlier.contain(leader) & ~starts_own_isr,
        CONTROLLER_EPOCH_NEVER_BACK: groups.first_controller_epoch[b] < groups.last_controller_epoch[a],
    }


_MESSAGES: Final = {
    LEADER_EPOCH_NEVER_BACK: "leader epoch went from {before[leader_epoch]} back to {after[leader_epoch]}",
    LEADER_EPOCH_BY_ONE: "one write raised the leader epoch from {before[leader_epoch]} to {after[leader_epoch]}",
    LEADER_FROM_ISR: "leader {after[leader]} was not in the ISR {before[isr]} and does not start an ISR of its own",
    CONTROLLER_EPOCH_NEVER_BACK: (
        "controller epoch {first} wrote partition epoch {after[sub]} after controller epoch {last} had seen partition "
        "epoch {before[sub]}"
    ),
}


def describe_state(row: dict[str, Any]) -> str:
    """Of a row of STATES."""
    return f"leader {row['leader']}, leader epoch {row['leader_epoch']}, ISR {row['isr']}"
