"""Records of state machines, assignments and states drawn at random, and a naive reading of what is wrong in them."""

from collections.abc import Iterator, Sequence
from random import Random

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from cluster.model.state_machines import PartitionState, ReplicaState
from state_log.invariants import check_record
from state_log.record import Cause, Kind, LoggedStateChange

LISTS = tuple(tuple(map(BrokerId, replicas)) for replicas in ((1, 2), (2, 1), (1, 2, 3), (1,)))
_PARTITION, _REPLICA = [*map(str, PartitionState)], [*map(str, ReplicaState)]
_NAMES = ("node", "incarnation", "controller_epoch")
Found = tuple[str, tuple[str, ...]]
"""A rule, and the records that violate it."""


def drawn_steps(seed: int) -> list[LoggedStateChange]:
    """Records of two controllers in three controller epochs about a partition of a topic with an id."""
    random = Random(seed)
    records: list[LoggedStateChange] = []
    for epoch, node in ((1, "controller-1"), (2, "controller-2"), (3, "controller-1")):
        for seq in range(random.randrange(14)):
            base = {
                "v": 2, "node": node, "incarnation": "1.1", "seq": 100 * epoch + seq, "at_ms": seq, "topic": "t",
                "topic_id": TopicId("id"), "partition": 0, "controller_epoch": ControllerEpoch(epoch),
                "cause": Cause("Drawn"),
            }  # fmt: skip
            records.append(LoggedStateChange(**base, **_drawn(random, len(records))))  # type: ignore[arg-type]
    return records


def _drawn(random: Random, epoch: int) -> dict[str, object]:
    match random.choice(["partition", "replica", "replica", "move", "move", "state", "state", "state"]):
        case "partition":
            states = random.choice(_PARTITION), random.choice(_PARTITION)
            return {"kind": Kind.PARTITION, "from_state": states[0], "to_state": states[1]}
        case "replica":
            states = random.choice(_REPLICA[-3:]), random.choice(_REPLICA[-3:])
            broker = BrokerId(random.choice([1, 3]))
            return {"kind": Kind.REPLICA, "broker": broker, "from_state": states[0], "to_state": states[1]}
        case "move":
            to_state = random.choice(["started", "started", "completed", "completed", "cancelled", None])
            parts = {name: tuple(random.sample([BrokerId(1), BrokerId(3)], random.randrange(2))) for name in _PARTS}
            return {"kind": Kind.ASSIGNMENT, "to_state": to_state, "replicas": random.choice(LISTS), **parts}
    leader = random.choice([BrokerId(1), BrokerId(3), BrokerId(-1)])
    # Each record has a version of its own, so that there is one state of each.
    version = PartitionEpoch(epoch if random.random() < 0.8 else epoch + 40)
    return {
        "kind": Kind.ISR, "leader": leader, "leader_epoch": LeaderEpoch(1), "partition_epoch": version,
        "isr": random.choice(LISTS), "replicas": random.choice([*LISTS, LISTS[0], LISTS[0]]),
    }  # fmt: skip


_PARTS = ("adding_replicas", "removing_replicas")


def wrong_steps(records: Sequence[LoggedStateChange]) -> Iterator[Found]:
    """Find what is wrong, one record after the other; `records` in the order of the log."""
    yield from _wrong_machines(records)
    for place, record in enumerate(records):
        before = [r for r in records[:place] if _term(r) == _term(record)]
        if record.kind is Kind.ISR:
            yield from _wrong_state(records, record)
        if record.kind is Kind.ASSIGNMENT:
            yield from _wrong_move(records[:place], before, record)


def _term(record: LoggedStateChange) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in _NAMES)


def _wrong_machines(records: Sequence[LoggedStateChange]) -> Iterator[Found]:
    last: dict[tuple[object, ...], LoggedStateChange] = {}
    for record in records:
        if record.kind in {Kind.PARTITION, Kind.REPLICA}:
            machine = (*_term(record), record.kind, record.broker)
            before, last[machine] = last.get(machine), record
            unrecorded = (ReplicaState.NON_EXISTENT, ReplicaState.ONLINE)
            if before is None or before.to_state == record.from_state:
                continue
            if (before.to_state, record.from_state) != unrecorded and not list(check_record(record)):
                yield f"{record.kind}-transition-continues", (before.reference, record.reference)


def _wrong_state(records: Sequence[LoggedStateChange], record: LoggedStateChange) -> Iterator[Found]:
    epoch = record.partition_epoch
    assert epoch is not None
    lower = [r for r in records if r.partition_epoch is not None and r.partition_epoch < epoch]
    if not lower:
        return
    before = max(lower, key=lambda r: r.partition_epoch or 0)
    if _term(before) != _term(record):
        return
    if before.partition_epoch != epoch - 1:
        yield "partition-epoch-nobody-wrote", (before.reference, record.reference)
    moves = [r for r in records if r.kind is Kind.ASSIGNMENT and before.seq < r.seq < record.seq]
    expected = (moves or [before])[-1]
    if expected.replicas != record.replicas:
        yield "replicas-by-reassignment", (expected.reference, record.reference)


def _wrong_move(
    earlier: Sequence[LoggedStateChange], before: Sequence[LoggedStateChange], move: LoggedStateChange
) -> Iterator[Found]:
    moves, states = [r for r in before if r.kind is Kind.ASSIGNMENT], [r for r in earlier if r.kind is Kind.ISR]
    state = max(states, key=lambda r: r.partition_epoch or 0, default=None)
    if not moves:
        if move.to_state == "started" and state in before and state and not kept(move) <= {*(state.replicas or ())}:
            yield "move-ends-as-planned", (state.reference, move.reference)
        return
    last = moves[-1]
    gone = {*((last.removing_replicas if move.to_state == "completed" else last.adding_replicas) or ())}
    shown = kept(move) if move.to_state == "started" else {*(move.replicas or ())}
    if shown != {*(last.replicas or ())} - gone:
        yield "move-ends-as-planned", (last.reference, move.reference)
    elif (last.to_state, move.to_state) == ("completed", "cancelled"):
        yield "move-ends-that-began", (move.reference,)
    if (last.to_state, move.to_state) == ("started", "completed"):
        target = {*(move.replicas or ())}
        if state is not None and not target <= {*(state.isr or ())}:
            yield "move-completed-in-sync", (state.reference, move.reference)
        if state is not None and state.leader in {1, 3} - target:
            yield "leader-moved-along", (state.reference, move.reference)
        for broker in last.removing_replicas or ():
            steps = [r.to_state for r in before if r.kind is Kind.REPLICA and r.broker == broker]
            if not steps or steps[-1] != ReplicaState.NON_EXISTENT:
                yield "removed-replica-deleted", (last.reference, move.reference)


def kept(move: LoggedStateChange) -> set[BrokerId]:
    return {*(move.replicas or ())} - {*(move.adding_replicas or ())}
