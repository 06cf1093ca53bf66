"""What agents applied, compared with what controllers wrote: a role follows from a state that a controller wrote.

A role that arrives before its state waits in a table, and so does a leadership that its leader has not yet taken. What
waits at the end is reported by `audit.report.open_conditions`: only then is it known whether the rest of a log is
missing.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy
import pyarrow
import pyarrow.compute

from audit.records.findings import Finding, Violation, changes
from audit.records.sorted_runs import NOTHING, Bounds, Run, gather, neighbours
from audit.records.vectors import (
    ABSENT,
    Flags,
    Keys,
    Longs,
    are_in_order,
    by_reference,
    group_starts,
    is_one_of,
    keys,
    longs,
    order_in_groups,
)
from audit.rules.partition_states import (
    STATES,
    STATES_OF_RECORDS,
    WRITTEN,
    Contents,
    describe_state,
    reduce_states,
    state_rows,
)
from audit.rules.subjects import Subjects, reference
from state_log.kafka.message_fields import CACHED
from state_log.record import Kind

AGENT_DISAGREES: Final = "agent-disagrees-with-controller"
_UNKNOWN: Final = 1 << 40
WAITING: Final = pyarrow.schema(
    [*STATES, ("topic", pyarrow.string()), ("topic_id", pyarrow.string()), ("partition", pyarrow.int32())]
)
"""States with the names of their partitions."""
_TEXT: Final = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
TAKEN: Final = pyarrow.schema(
    {
        "key": pyarrow.uint64(),
        "sub": pyarrow.int64(),
        "partition_epoch": pyarrow.int64(),
        "min_insync_replicas": pyarrow.int32(),
        "cause_controller_epoch": pyarrow.int32(),
        "at_ms": pyarrow.int64(),
        "node": _TEXT,
        "incarnation": _TEXT,
        "seq": pyarrow.int64(),
    }
)
"""Leader epochs (`sub`) in which the leader has recorded its role: the first such record by time, node, incarnation and
number, and the least `min_insync_replicas` of all of them (null: none has it).
"""


class Applied(NamedTuple):
    """What a batch says: states that controllers wrote and that agents applied, leader epochs that leaders took up."""

    written: pyarrow.Table
    applied: pyarrow.Table
    taken: pyarrow.Table


class Waiting(NamedTuple):
    """As WAITING: applied states that nobody has written, and the newest leaderships that nobody has taken."""

    unwritten: pyarrow.Table
    untaken: pyarrow.Table


def applied_of(rows: pyarrow.Table, found: Contents) -> pyarrow.Table:
    """The states that agents applied by these records, as STATES, reduced. Brokers of Kafka's apply what they cache.

    `found`: the records' contents.
    """
    chosen = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], ["leader", "follower", CACHED])
    chosen &= found.present
    part = rows.select(STATES_OF_RECORDS).filter(pyarrow.array(chosen))
    return reduce_states(state_rows(part, found.content[chosen]))


def taken_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The leader epochs that their leaders took up, as TAKEN, reduced."""
    leader, broker = longs(rows["leader"]), longs(rows["broker"])
    own = _are_roles(rows) & is_one_of(rows["to_state"], ["leader"]) & (leader == broker) & (broker >= 0)
    own &= longs(rows["leader_epoch"]) != ABSENT
    part = rows.select(["key", "leader_epoch", "partition_epoch", *TAKEN.names[3:]]).filter(pyarrow.array(own))
    columns = [
        part["key"],
        *(part[name].cast(pyarrow.int64()) for name in ("leader_epoch", "partition_epoch")),
        *(part[name] for name in TAKEN.names[3:]),
    ]
    return reduce_taken(pyarrow.table(columns, schema=TAKEN))


def reduce_taken(rows: pyarrow.Table) -> pyarrow.Table:
    """Sorted by key and leader epoch, each once."""
    rows = rows.unify_dictionaries()
    key, sub = keys(rows["key"]), longs(rows["sub"])
    if are_in_order(key, sub):
        return rows
    order = numpy.lexsort((sub, key))
    starts = group_starts(key[order], sub[order])
    order = order_in_groups(order, starts, lambda chosen: by_reference(rows, chosen))
    minimum = longs(rows["min_insync_replicas"])[order]
    least = numpy.minimum.reduceat(numpy.where(minimum == ABSENT, _UNKNOWN, minimum), starts)
    values = pyarrow.array(least, pyarrow.int64(), mask=least == _UNKNOWN).cast(pyarrow.int32())
    return rows.take(order[starts]).set_column(3, "min_insync_replicas", values)


def check_applied(written: Sequence[Run], applied: Sequence[Run], new: Applied, subjects: Subjects) -> list[Finding]:
    """What the new states, with those of the runs, change about contradictions of agents and controllers."""
    touched = _epochs(new.written, new.applied)
    if not len(touched.key):
        return []
    known = gather(written, touched.key, touched.sub, WRITTEN.empty_table())
    known_applied = gather(applied, touched.key, touched.sub, STATES.empty_table())
    before = _contradictions(known, known_applied, subjects)
    written_now, applied_now = ((known, new.written), (known_applied, new.applied))
    now = _contradictions(pyarrow.concat_tables(written_now), pyarrow.concat_tables(applied_now), subjects)
    return changes({f.name: f for f in before}, {f.name: f for f in now})


def wait(runs: Sequence[Run], taken: Sequence[Run], new: Applied, waiting: Waiting, subjects: Subjects) -> Waiting:
    """What waits after a batch. `runs`: states that controllers wrote; `taken`: as TAKEN."""
    unwritten = pyarrow.concat_tables([waiting.unwritten, subjects.named(new.applied)]).unify_dictionaries()
    found = _present([*runs, Run(new.written)], keys(unwritten["key"]), longs(unwritten["sub"]))
    # A state that arrives late is not the newest: the leadership has passed on since.
    is_newest = neighbours(runs, keys(new.written["key"]), longs(new.written["sub"]))[1] == NOTHING
    newest = subjects.named(new.written.filter(pyarrow.array(is_newest)).select(STATES.names))
    untaken = _newest(pyarrow.concat_tables([waiting.untaken, newest]).unify_dictionaries())
    done = _present([*taken, Run(new.taken)], keys(untaken["key"]), longs(untaken["leader_epoch"]))
    return Waiting(
        unwritten.filter(pyarrow.array(~found)),
        untaken.filter(pyarrow.array(~done | (longs(untaken["leader"]) < 0))),
    )


def _are_roles(rows: pyarrow.Table) -> Flags:
    return is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], ["leader", "follower"])


class _Epochs(NamedTuple):
    key: Keys
    sub: Longs


def _epochs(*tables: pyarrow.Table) -> _Epochs:
    """Each (key, partition epoch) of these tables once, sorted."""
    key = numpy.concatenate([keys(table["key"]) for table in tables])
    sub = numpy.concatenate([longs(table["sub"]) for table in tables])
    order = numpy.lexsort((sub, key))
    key, sub = key[order], sub[order]
    starts = group_starts(key, sub)
    return _Epochs(key[starts], sub[starts])


def _present(runs: Sequence[Run], key: Keys, sub: Longs) -> Flags:
    found = numpy.zeros(len(key), bool)
    for run in runs:
        bounds = run.find(key, sub)
        found |= bounds.first < bounds.end
    return found


def _newest(states: pyarrow.Table) -> pyarrow.Table:
    """The state of the highest partition epoch of each partition."""
    key, sub = keys(states["key"]), longs(states["sub"])
    order = numpy.lexsort((sub, key))
    starts = group_starts(key[order])
    return states.take(order[numpy.append(starts[1:], len(order))[: len(starts)] - 1])


def _contradictions(written: pyarrow.Table, applied: pyarrow.Table, subjects: Subjects) -> Iterator[Finding]:
    """Applied contents that differ from all that controllers wrote at the same partition epoch."""
    written, applied = reduce_states(written), reduce_states(applied)
    known, other = unlike(written, applied)
    for row in numpy.flatnonzero(other).tolist():
        found = applied.slice(row, 1).to_pylist()[0]
        state = written.slice(int(known.first[row]), 1).to_pylist()[0]
        message = (
            f"{found['node']} applied partition epoch {found['sub']} as {describe_state(found)}; "
            f"a controller wrote it as {describe_state(state)}"
        )
        subject = f"partition-epoch {found['sub']} content {found['content']:016x}"
        records = (reference(state), reference(found))
        violation = Violation(AGENT_DISAGREES, found["key"], subject, message, records, found["at_ms"])
        yield subjects.finding(violation)


def unlike(written: pyarrow.Table, shown: pyarrow.Table) -> tuple[Bounds, Flags]:
    """Of each row that shows a `content`: where those written at its (key, sub) are, and whether it is none of these.

    `written` is sorted by (key, sub).
    """
    known = Run(written).find(keys(shown["key"]), longs(shown["sub"]))
    content = Run(_by_content(written)).find(*_content_keys(shown))
    return known, (known.first < known.end) & (content.first == content.end)


def _content_keys(states: pyarrow.Table) -> tuple[Keys, Longs]:
    """Keys in which the content takes part."""
    return keys(states["key"]) ^ keys(states["content"]), longs(states["sub"])


def _by_content(states: pyarrow.Table) -> pyarrow.Table:
    key, sub = _content_keys(states)
    order = numpy.lexsort((sub, key))
    return pyarrow.table({"key": key[order], "sub": sub[order]})
