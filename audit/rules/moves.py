"""What reassignments do to a partition: who may replace its replicas, when a move is complete, and what it leaves.

Only controllers of klamm record assignments, and only partitions of topics with an id are checked: others may be two
partitions of one name, and below protocol version 2.7 their leaders write states that no controller has seen. Compared
is what one controller recorded in one controller epoch: one that dies may have written what it did not record. So a
term begins with the reassignments that its controller has loaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy
import pyarrow
import pyarrow.compute

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import HIGHEST, gather_all
from audit.records.vectors import (
    BrokerLists,
    Keys,
    are_present,
    group_starts,
    is_one_of,
    keys,
    longs,
    mixed,
    ranks,
)
from audit.rules.machine_steps import MACHINE_READ, MACHINE_STEPS, REPLICA_GONE, log_keys, machine_keys
from audit.rules.neighbouring import Pairs
from audit.rules.partition_states import STATES_READ, WRITTEN, Groups
from audit.rules.rule import KEY, REFERENCE, TEXT, BucketBatch, Explanation, Kept, Rule, once
from audit.rules.state_sequences import neighbouring_states
from audit.rules.subjects import reference
from audit.rules.unfinished_work import in_log_order
from state_log.histories import NO_EPOCH
from state_log.kafka.lines import NODE as KAFKA
from state_log.record import Kind

REPLICAS_BY_REASSIGNMENT: Final = "replicas-by-reassignment"
EPOCH_NOBODY_WROTE: Final = "partition-epoch-nobody-wrote"
MOVED_IN_SYNC: Final = "move-completed-in-sync"
MOVED_AS_PLANNED: Final = "move-ends-as-planned"
MOVE_NEVER_BEGAN: Final = "move-ends-that-began"
LEADER_MOVED: Final = "leader-moved-along"
REMOVED_REPLICA_DELETED: Final = "removed-replica-deleted"
_BROKERS: Final = pyarrow.list_(pyarrow.int32())
_SCHEMA: Final = pyarrow.schema(
    {
        **KEY,
        "to_state": TEXT,
        "replicas": _BROKERS,
        "adding_replicas": _BROKERS,
        "removing_replicas": _BROKERS,
        "controller_epoch": pyarrow.int32(),
        **REFERENCE,
    }
)
"""One row for each assignment that a controller recorded, and each reassignment that it has loaded. `sub`: controller
epoch and number.
"""
_STARTED, _COMPLETED, _CANCELLED, _LOADED = "started", "completed", "cancelled", "loaded"
_UNDER_WAY: Final = (_STARTED, _LOADED)
_TERMS: Final = pyarrow.schema(KEY)
_OF_REMOVALS: Final = frozenset({"replica removed", "another list of replicas"})
"""The reasons of states whose replicas include those that are not assigned any more, and still have to go."""


def moves_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read the assignments and the loaded reassignments in these records, of topics with an id, reduced."""
    loaded = is_one_of(rows["kind"], [Kind.LOADED.value])
    loaded &= are_present(rows["adding_replicas"]) | are_present(rows["removing_replicas"])
    assigned = is_one_of(rows["kind"], [Kind.ASSIGNMENT.value])
    if not (loaded.any() or assigned.any()):
        return _SCHEMA.empty_table()
    chosen = (assigned | loaded) & (keys(rows["key"]) != 0)
    chosen &= are_present(rows["topic_id"]) & are_present(rows["controller_epoch"]) & are_present(rows["replicas"])
    part = rows.select(["key", *_SCHEMA.names[2:]]).filter(pyarrow.array(chosen))
    states = pyarrow.compute.if_else(pyarrow.array(loaded[chosen]), _LOADED, part["to_state"].cast(pyarrow.string()))
    part = part.set_column(1, "to_state", states.dictionary_encode())
    order = in_log_order(longs(part["controller_epoch"]), longs(part["seq"]))
    columns = [part["key"], pyarrow.array(order), *(part[name] for name in _SCHEMA.names[2:])]
    return reduce_moves(pyarrow.table(columns, schema=_SCHEMA))


def reduce_moves(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and `sub`; keep one row of each record, the same in whatever order they came."""
    rows = rows.unify_dictionaries()
    texts = [ranks(rows[name]) for name in ("to_state", "incarnation", "node")]
    lists = [BrokerLists(rows[name]).set_hashes() for name in ("replicas", "adding_replicas", "removing_replicas")]
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((*lists, *texts, longs(rows["at_ms"]), sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order])]))


MOVES: Final = Kept("moves", _SCHEMA, lambda batch: moves_of(batch.rows), reduce_moves, Sealing())


def _terms_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Find the terms whose controller recorded all reassignments that it has loaded: it names the live brokers too."""
    names = ("node", "incarnation", "controller_epoch")
    chosen = is_one_of(rows["kind"], [Kind.CONTROLLER.value]) & are_present(rows["inputs_live"])
    part = rows.select(names).filter(pyarrow.array(chosen & are_present(rows["controller_epoch"])))
    return reduce_terms(pyarrow.table([_term_keys(part), numpy.zeros(part.num_rows, numpy.int64)], schema=_TERMS))


def reduce_terms(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key; keep one row of each."""
    key = numpy.unique(keys(rows["key"]))
    return pyarrow.table([key, numpy.zeros(len(key), numpy.int64)], schema=_TERMS)


def _term_keys(rows: pyarrow.Table) -> Keys:
    """Hash the controller's term of each row; aligned."""
    return mixed(log_keys(rows) + longs(rows["controller_epoch"]).astype(numpy.uint64))


TERMS: Final = Kept("planned_terms", _TERMS, lambda batch: _terms_of(batch.rows), reduce_terms)
"""The terms of which all reassignments that were loaded are known. `key`: of the term; `sub` is 0. The record that says
so is the first of its term: it is read before any assignment.
"""


class _Known(NamedTuple):
    """Rows of some partitions: of MOVES, of WRITTEN and of MACHINE_STEPS, each reduced.

    The moves have one column more, `is_planned`: whether the term of the row is one of TERMS.
    """

    moves: pyarrow.Table
    states: pyarrow.Table
    steps: pyarrow.Table


def _check(batch: BucketBatch) -> list[AuditFinding]:
    touched = _touched(batch)
    if not len(touched):
        return []
    before, now = _known(batch, touched, with_new=False), _known(batch, touched, with_new=True)
    return changes(*([batch.subjects.finding(found) for found in _checked(known)] for known in (before, now)))


def _known(batch: BucketBatch, touched: Keys, *, with_new: bool) -> _Known:
    found = []
    for table in (MOVES, WRITTEN):
        rows = gather_all(batch.runs(table), touched, table.schema.empty_table())
        if with_new:
            added = batch.added(table)
            rows = pyarrow.concat_tables([rows, added.filter(pyarrow.array(numpy.isin(keys(added["key"]), touched)))])
        found.append(table.reduce(rows))
    moves, states = found
    term = _term_keys(moves)
    terms = [gather_all(batch.runs(TERMS), numpy.unique(term), _TERMS.empty_table())]
    terms += [batch.added(TERMS)] if with_new else []
    planned = numpy.isin(term, numpy.concatenate([keys(rows["key"]) for rows in terms]))
    moves = moves.append_column("is_planned", pyarrow.array(planned))
    machines = _removed_machines(moves)
    steps = gather_all(batch.runs(MACHINE_STEPS), machines, MACHINE_STEPS.schema.empty_table())
    if with_new:
        added = batch.added(MACHINE_STEPS)
        steps = pyarrow.concat_tables([steps, added.filter(pyarrow.array(numpy.isin(keys(added["key"]), machines)))])
    return _Known(moves, states, MACHINE_STEPS.reduce(steps))


def _removed_machines(moves: pyarrow.Table) -> Keys:
    """The machines of replicas that these moves remove, sorted."""
    removed = BrokerLists(moves["removing_replicas"])
    return numpy.unique(machine_keys(keys(moves["key"])[removed.row], removed.values, log_keys(moves)[removed.row]))


def _touched(batch: BucketBatch) -> Keys:
    """The partitions about which a batch may change something, sorted: those with new assignments, with states that
    show other replicas or leave out a partition epoch, and those with late records of before an assignment.
    """
    runs, new = batch.runs(MOVES), batch.added(MOVES)
    found = [keys(new["key"]), *_strange_states(batch)]
    written, steps = batch.added(WRITTEN), batch.added(MACHINE_STEPS)
    late = [
        (keys(written["key"]), longs(written["first_controller_epoch"]), longs(written["seq"])),
        (keys(steps["partition_key"]), longs(steps["controller_epoch"]), longs(steps["sub"])),
    ]
    for key, epoch, seq in late:
        order = in_log_order(epoch, seq)
        for run in runs.between(key, order, numpy.full(len(key), HIGHEST)):
            bounds = run.find(key, order)
            found.append(key[bounds.first < bounds.stop])
    return numpy.unique(numpy.concatenate(found))


def _strange_states(batch: BucketBatch) -> list[Keys]:
    """The partitions with neighbours of which one controller wrote both, and that a move or a write is between."""
    if not batch.added(WRITTEN).num_rows:
        return []
    states = neighbouring_states(batch)
    found = [_strange(groups, pairs) for groups, pairs in ((states.before, states.old), (states.now, states.new))]
    with_id = _with_id(batch)
    return [key[numpy.isin(key, with_id)] for key in found]


@once
def _with_id(batch: BucketBatch) -> Keys:
    """The partitions of the batch whose topic has an id, sorted."""
    return numpy.unique(keys(batch.rows["key"])[are_present(batch.rows["topic_id"])])


def _strange(groups: Groups, pairs: Pairs) -> Keys:
    """The keys of pairs in one term with other replicas, or not by one."""
    a, b = pairs
    gap = groups.sub[b] != groups.sub[a] + 1
    replicas = BrokerLists(groups.firsts["replicas"])
    content = replicas.ordered_hashes()
    other = replicas.present[a] & replicas.present[b] & (content[a] != content[b])
    chosen = (gap | other) & (groups.first_controller_epoch[a] == groups.first_controller_epoch[b])
    return numpy.asarray(groups.key[b[chosen]], numpy.uint64)


def _checked(known: _Known) -> Iterator[RuleViolation]:
    """Check all that is known of some partitions."""
    states = _by_partition(_firsts(known.states))
    moves = _by_partition(known.moves)
    steps: dict[int, list[Mapping[str, Any]]] = {}
    for step in known.steps.to_pylist():
        steps.setdefault(step["key"], []).append(step)
    machines = dict(_machines(known.moves))
    for key in sorted({*states, *moves}):
        of_partition = _Partition(key, states.get(key, []), moves.get(key, []))
        yield from _of_states(of_partition)
        yield from _of_moves(of_partition)
        yield from _of_removed(of_partition, machines, steps)


class _Partition(NamedTuple):
    """Rows of WRITTEN in the order of partition epochs, the first of each, and of MOVES in the order of the log."""

    key: int
    states: Sequence[Mapping[str, Any]]
    moves: Sequence[Mapping[str, Any]]

    def violation(self, rule: str, subject: str, message: str, *records: Mapping[str, Any]) -> RuleViolation:
        return RuleViolation(rule, self.key, subject, message, tuple(map(reference, records)), records[-1]["at_ms"])

    def state_before(self, move: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The newest state that the controller knew when it recorded the move."""
        return next((s for s in reversed(self.states) if _is_before(s, move)), None)

    def of_move(self, rule: str, message: str, before: Mapping[str, Any], move: Mapping[str, Any]) -> RuleViolation:
        return self.violation(rule, f"record {reference(move)}", message, before, move)


def _firsts(states: pyarrow.Table) -> pyarrow.Table:
    return Groups(states).firsts


def _by_partition(rows: pyarrow.Table) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["key"], []).append(row)
    return found


def _machines(moves: pyarrow.Table) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield the machine of each replica that a move removes, by partition, `sub` of the move, and broker."""
    removed = BrokerLists(moves["removing_replicas"])
    key, sub = keys(moves["key"])[removed.row], longs(moves["sub"])[removed.row]
    machine = machine_keys(key, removed.values, log_keys(moves)[removed.row])
    names = zip(key.tolist(), sub.tolist(), removed.values.tolist(), strict=True)
    return zip(names, machine.tolist(), strict=True)


def _are_of_one_term(one: Mapping[str, Any], other: Mapping[str, Any], epoch: str) -> bool:
    """Whether one controller recorded both rows in one epoch; `epoch`: the column of it."""
    return all(one[name] == other[name] for name in ("node", "incarnation", epoch))


def _of_states(of: _Partition) -> Iterator[RuleViolation]:
    for a, b in pairwise(of.states):
        if not _are_of_one_term(a, b, "first_controller_epoch") or a["node"].startswith(KAFKA):
            continue
        subject = f"partition-epoch {b['sub']}"
        if b["sub"] != a["sub"] + 1:
            message = f"partition epoch {b['sub']} follows {a['sub']}, and nobody recorded what was written between"
            yield of.violation(EPOCH_NOBODY_WROTE, subject, message, a, b)
        between = [m for m in of.moves if _is_between(m, a, b)]
        expected = between[-1] if between else a
        named = not {b["reason"], expected.get("reason")} & _OF_REMOVALS and None not in (
            expected["replicas"],
            b["replicas"],
        )
        if named and expected["replicas"] != b["replicas"]:
            message = f"the replicas went from {expected['replicas']} to {b['replicas']}, by no reassignment"
            yield of.violation(REPLICAS_BY_REASSIGNMENT, subject, message, expected, b)


def _is_between(move: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return a["seq"] < move["seq"] < b["seq"] and all(move[name] == a[name] for name in ("node", "incarnation"))


def _pairs_of_moves(of: _Partition) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return (pair for pair in pairwise(of.moves) if _are_of_one_term(*pair, "controller_epoch"))


def _first_moves(of: _Partition) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the first assignment of each term, if it starts a reassignment, after the state before it in the term."""
    for before, move in pairwise((None, *of.moves)):
        assert move is not None
        is_first = before is None or not _are_of_one_term(before, move, "controller_epoch")
        state = of.state_before(move) if is_first and move["to_state"] == _STARTED else None
        if state is None or state["replicas"] is None or state["reason"] in _OF_REMOVALS:
            continue
        if _recorded_by_one(state, move):
            yield state, move


def _recorded_by_one(state: Mapping[str, Any], move: Mapping[str, Any]) -> bool:
    """Whether the controller that recorded the move wrote the state, in the same controller epoch."""
    of_log = all(state[name] == move[name] for name in ("node", "incarnation"))
    return of_log and bool(state["first_controller_epoch"] == move["controller_epoch"])


def _of_moves(of: _Partition) -> Iterator[RuleViolation]:
    for state, move in _first_moves(of):
        # A state may name replicas that still have to go.
        if not _kept(move) <= set(state["replicas"]):
            message = f"a reassignment starts with the replicas {move['replicas']}, of which {move['adding_replicas']} "
            yield of.of_move(MOVED_AS_PLANNED, f"{message}are new, after {state['replicas']}", state, move)
    for before, move in _pairs_of_moves(of):
        expected = _expected(before, move)
        shown = _kept(move) if move["to_state"] == _STARTED else set(move["replicas"])
        if shown != expected:
            message = (
                f"a reassignment is {move['to_state']} with the replicas {move['replicas']}, after "
                f"{before['replicas']} with {before['adding_replicas']} being added and {before['removing_replicas']} "
                "removed"
            )
            yield of.of_move(MOVED_AS_PLANNED, message, before, move)
        elif (before["to_state"], move["to_state"]) == (_COMPLETED, _CANCELLED):
            yield _never_began(of, move)
        if before["to_state"] in _UNDER_WAY and move["to_state"] == _COMPLETED:
            yield from _of_completion(of, move)
    for former, move in zip((None, *of.moves), of.moves, strict=False):
        is_first = former is None or not _are_of_one_term(former, move, "controller_epoch")
        if is_first and move["is_planned"] and _is_unplanned_end(of, former, move):
            yield _never_began(of, move)


def _is_unplanned_end(of: _Partition, former: Mapping[str, Any] | None, move: Mapping[str, Any]) -> bool:
    """Whether the first assignment of a term ends a reassignment that the controller has not loaded.

    One to the replicas that there are is completed without having started.
    """
    if move["to_state"] != _COMPLETED:
        return bool(move["to_state"] == _CANCELLED)
    known = {broker for row in (former, of.state_before(move)) if row is not None for broker in row["replicas"] or ()}
    return bool(known) and not set(move["replicas"]) <= known


def _never_began(of: _Partition, move: Mapping[str, Any]) -> RuleViolation:
    message = f"a reassignment to {move['replicas']} is {move['to_state']}, and none was under way"
    return of.violation(MOVE_NEVER_BEGAN, f"record {reference(move)}", message, move)


def _kept(move: Mapping[str, Any]) -> set[int]:
    """The replicas that a move starts from."""
    return set(move["replicas"]) - set(move["adding_replicas"] or ())


def _expected(before: Mapping[str, Any], move: Mapping[str, Any]) -> set[int]:
    """The replicas after a move ended, or those from which it starts, by the assignment before it."""
    gone = before["removing_replicas" if move["to_state"] == _COMPLETED else "adding_replicas"]
    return set(before["replicas"]) - set(gone or ())


def _of_completion(of: _Partition, move: Mapping[str, Any]) -> Iterator[RuleViolation]:
    state = of.state_before(move)
    if state is None or any(s["first_controller_epoch"] == NO_EPOCH for s in of.states):
        # What a leader wrote is in no order with what the controller did.
        return
    missing = sorted(set(move["replicas"]) - set(state["isr"]))
    if missing:
        message = (
            f"the reassignment to {move['replicas']} is completed, and {missing} are not in the ISR {state['isr']}"
        )
        yield of.of_move(MOVED_IN_SYNC, message, state, move)
    if state["leader"] >= 0 and state["leader"] not in move["replicas"]:
        message = f"the reassignment to {move['replicas']} is completed, and {state['leader']} still leads"
        yield of.of_move(LEADER_MOVED, message, state, move)


def _is_before(state: Mapping[str, Any], move: Mapping[str, Any]) -> bool:
    """Whether the controller knew a state when it recorded the move."""
    epoch = state["first_controller_epoch"]
    if epoch != move["controller_epoch"]:
        return bool(epoch < move["controller_epoch"])
    return bool(state["seq"] < move["seq"])


def _of_removed(
    of: _Partition, machines: Mapping[tuple[int, int, int], int], steps: Mapping[int, Sequence[Mapping[str, Any]]]
) -> Iterator[RuleViolation]:
    for before, move in _pairs_of_moves(of):
        if before["to_state"] not in _UNDER_WAY or move["to_state"] != _COMPLETED:
            continue
        for broker in before["removing_replicas"] or ():
            machine = steps.get(machines[of.key, before["sub"], broker], ())
            done = [s for s in machine if s["sub"] < move["seq"] and s["controller_epoch"] == move["controller_epoch"]]
            if not done or done[-1]["after"] != REPLICA_GONE:
                message = f"the reassignment to {move['replicas']} is completed, and replica {broker} was not deleted"
                yield of.violation(
                    REMOVED_REPLICA_DELETED, f"record {reference(move)} replica {broker}", message, before, move
                )


_NEXT: Final = "the controller's log between the two records, and the event that led to the second"
_NO_MOVES: Final = "the log does not say when replicas are assigned"


def _error(says: str, check_next: str = _NEXT) -> Explanation:
    return Explanation("error", says, check_next, _NO_MOVES, of_whole_logs=True)


RULE: Final = Rule(
    explains={
        MOVED_IN_SYNC: Explanation(
            "critical",
            "A reassignment is completed only when all of its target replicas are in the ISR.",
            "the ISR before the record, and the logs of the new replicas: those that are not in sync lack records",
            _NO_MOVES,
            of_whole_logs=True,
        ),
        REPLICAS_BY_REASSIGNMENT: _error("The replicas of a partition change only by a reassignment."),
        EPOCH_NOBODY_WROTE: _error(
            "Each version of a partition's state znode was written by a controller, which recorded it.",
            "ZooKeeper's transaction log: another program wrote the state znode, or the controller did not record it",
        ),
        MOVED_AS_PLANNED: _error(
            "A reassignment starts from the replicas that there are, and ends with those that were planned."
        ),
        MOVE_NEVER_BEGAN: _error(
            "A reassignment that is completed or cancelled was under way: the controller started or loaded it."
        ),
        LEADER_MOVED: _error("When a reassignment is completed, one of its target replicas leads, or none."),
        REMOVED_REPLICA_DELETED: _error(
            "When a reassignment is completed, the replicas that it removes were told to delete their data.",
            "the brokers of the removed replicas: their disks have data that no partition owns",
        ),
    },
    reads=tuple(
        dict.fromkeys((*STATES_READ, *MACHINE_READ, *_SCHEMA.names[2:], "key", "kind", "topic_id", "inputs_live"))
    ),
    check=_check,
    keeps=(MOVES, TERMS),
)
