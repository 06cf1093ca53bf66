"""The transitions of one state machine: each begins where the one before it has ended.

Compared are transitions of one partition, or of one replica, that one controller recorded in one controller epoch. A
controller that becomes active derives the first states from ZooKeeper, so what earlier ones recorded says nothing then.
"""

from collections.abc import Iterator
from typing import Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.vectors import (
    Keys,
    Longs,
    are_in_order,
    are_present,
    group_starts,
    is_one_of,
    keys,
    longs,
    mixed,
    order_in_groups,
    ranked,
    text_hashes,
)
from audit.rules.neighbouring import Neighbours, neighbours_of
from audit.rules.rule import KEY, TEXT, BucketBatch, Explanation, Kept, Rule
from audit.rules.subjects import Subjects, reference
from cluster.model.state_machines import (
    PREVIOUS_PARTITION_STATES,
    PREVIOUS_REPLICA_STATES,
    PartitionState,
    ReplicaState,
)
from state_log.record import Kind

PARTITION_CONTINUES: Final = "partition-transition-continues"
REPLICA_CONTINUES: Final = "replica-transition-continues"
_STATES: Final = (*map(str, PartitionState), *map(str, ReplicaState))
_UNKNOWN: Final = -1
_PREVIOUS: Final = {
    str(state): before
    for table in (PREVIOUS_PARTITION_STATES, PREVIOUS_REPLICA_STATES)
    for state, before in table.items()
}
REPLICA_GONE: Final = _STATES.index(ReplicaState.NON_EXISTENT)
"""What `after` is where a replica was deleted."""
_ONLINE: Final = _STATES.index(ReplicaState.ONLINE)
_LEGAL: Final = numpy.array(
    [
        *([after != "" and before in map(str, _PREVIOUS[after]) for after in (*_STATES, "")] for before in _STATES),
        [False] * (len(_STATES) + 1),
    ]
)
"""Whether a transition is in its table, by the places of both states; the last row and column are for _UNKNOWN."""
_NO_BROKER: Final = -(1 << 31)
"""Of partitions. A replica's record may have any broker, -1 among them."""
_SCHEMA: Final = pyarrow.schema(
    {
        **KEY,
        "partition_key": pyarrow.uint64(),
        "broker": pyarrow.int32(),
        "controller_epoch": pyarrow.int32(),
        "before": pyarrow.int8(),
        "after": pyarrow.int8(),
        "at_ms": pyarrow.int64(),
        "node": TEXT,
        "incarnation": TEXT,
    }
)
"""One row for each transition. `key`: a hash of the machine and of the log; `sub`: the number of the record; `broker`:
of a replica, else _NO_BROKER; `before`, `after`: places in _STATES, _UNKNOWN for others.
"""


def machine_keys(partition: Keys, broker: Longs, log: Keys) -> Keys:
    """Hash each machine of a partition and its log. `broker`: of a replica, else _NO_BROKER. All aligned."""
    return mixed(mixed(partition ^ mixed((broker + 2).astype(numpy.uint64))) + log)


def log_keys(rows: pyarrow.Table) -> Keys:
    """A hash of the node and the incarnation of each row; aligned with the rows."""
    return mixed(text_hashes(rows["node"]) + numpy.uint64(1)) + text_hashes(rows["incarnation"])


def machine_steps_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read the transitions in these records, reduced."""
    of_partition = is_one_of(rows["kind"], [Kind.PARTITION.value])
    chosen = of_partition | (is_one_of(rows["kind"], [Kind.REPLICA.value]) & are_present(rows["broker"]))
    chosen &= (keys(rows["key"]) != 0) & are_present(rows["controller_epoch"])
    chosen &= are_present(rows["from_state"]) & are_present(rows["to_state"])
    part = rows.select(MACHINE_READ).filter(pyarrow.array(chosen))
    partition = keys(part["key"])
    broker = numpy.where(of_partition[chosen], _NO_BROKER, longs(part["broker"]))
    columns = [
        pyarrow.array(machine_keys(partition, broker, log_keys(part))),
        *(part["seq"], part["key"], pyarrow.array(broker, pyarrow.int32()), part["controller_epoch"]),
        *(pyarrow.array(_places(part[name]), pyarrow.int8()) for name in ("from_state", "to_state")),
        *(part[name] for name in ("at_ms", "node", "incarnation")),
    ]
    return reduce_machine_steps(pyarrow.table(columns, schema=_SCHEMA))


def _places(column: pyarrow.ChunkedArray) -> Longs:
    """The place of each text in _STATES."""
    rank, texts = ranked(column)
    place = numpy.array([*(_STATES.index(t) if t in _STATES else _UNKNOWN for t in texts), _UNKNOWN], numpy.int64)
    return place[rank]


def reduce_machine_steps(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and `sub`; keep one row of each, the same in whatever order they came."""
    rows = rows.unify_dictionaries()
    key, sub = keys(rows["key"]), longs(rows["sub"])
    if are_in_order(key, sub):
        return rows
    order = sorted_order((sub, key))
    starts = group_starts(key[order], sub[order])
    if len(starts) < len(order):
        order = order_in_groups(order, starts, lambda chosen: _contents(rows, chosen))
    return rows.take(pyarrow.array(order[starts]))


def _contents(rows: pyarrow.Table, chosen: Longs) -> tuple[Longs, ...]:
    return tuple(longs(rows[name].take(chosen)) for name in ("after", "before", "at_ms", "controller_epoch"))


MACHINE_STEPS: Final = Kept(
    "machine_steps", _SCHEMA, lambda batch: machine_steps_of(batch.rows), reduce_machine_steps, Sealing()
)


def _check(batch: BucketBatch) -> list[AuditFinding]:
    before, now = (_found(found, batch.subjects) for found in neighbours_of(batch, MACHINE_STEPS))
    return changes(before, now)


def _found(found: Neighbours, subjects: Subjects) -> Iterator[AuditFinding]:
    rows, (before, after) = found
    left, entered, next_one = longs(rows["after"])[before], longs(rows["before"])[after], longs(rows["after"])[after]
    epoch = longs(rows["controller_epoch"])
    # New replicas, and those of a topic that was created a second time, are online without a record.
    unrecorded = (left == REPLICA_GONE) & (entered == _ONLINE)
    wrong = (left != entered) & (left != _UNKNOWN) & (entered != _UNKNOWN) & ~unrecorded
    # That a transition is in no table is said by itself.
    wrong &= (epoch[before] == epoch[after]) & _LEGAL[entered, next_one]
    for one, other in zip(before[wrong].tolist(), after[wrong].tolist(), strict=True):
        yield subjects.finding(_violation(*({**row, "seq": row["sub"]} for row in _rows(rows, one, other))))


def _rows(rows: pyarrow.Table, *places: int) -> list[dict[str, object]]:
    return [row for place in places for row in rows.slice(place, 1).to_pylist()]


def _violation(first: dict[str, object], second: dict[str, object]) -> RuleViolation:
    of_replica = second["broker"] != _NO_BROKER
    machine = f"replica {second['broker']}" if of_replica else "the partition"
    message = (
        f"{machine} went from {_STATES[second['before']]} to {_STATES[second['after']]}, "  # type: ignore[call-overload]
        f"but was in {_STATES[first['after']]} since record {first['seq']}"  # type: ignore[call-overload]
    )
    name = reference(second)
    return RuleViolation(
        REPLICA_CONTINUES if of_replica else PARTITION_CONTINUES,
        second["partition_key"],  # type: ignore[arg-type]
        f"record {name}",
        message,
        (reference(first), name),
        second["at_ms"],  # type: ignore[arg-type]
    )


MACHINE_READ: Final = (
    *("key", "kind", "broker", "controller_epoch", "from_state", "to_state"),
    *("at_ms", "node", "incarnation", "seq"),
)
_NEXT: Final = (
    "the controller's log between the two records: it made a transition without recording it, or carried out two "
    "events at once"
)
RULE: Final = Rule(
    explains={
        PARTITION_CONTINUES: Explanation(
            "error",
            "A transition of a partition begins in the state in which the controller's last one has ended.",
            _NEXT,
            kafka="TRACE",
            of_whole_logs=True,
        ),
        REPLICA_CONTINUES: Explanation(
            "error",
            "A transition of a replica begins in the state in which the controller's last one has ended.",
            _NEXT,
            kafka="TRACE",
            of_whole_logs=True,
        ),
    },
    reads=MACHINE_READ,
    check=_check,
    keeps=(MACHINE_STEPS,),
)
