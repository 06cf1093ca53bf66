"""Replays the log of a controller, record by record.

The records of one event are taken together: only the last of them may say what the first was for. Each decision is
held against the state that the log shows before it, and then taken over as it is in the log, so that one difference is
one finding.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from cluster.model.broker import NO_LEADER, BrokerId
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller import changes
from controller.decisions.cluster_events import REASSIGNMENT_COMPLETED, REASSIGNMENT_STARTED
from controller.decisions.partitions.leader_election import ControlledShutdown, Offline
from controller.replay.assignments import check_assignment, check_partition_move, check_replica_move
from controller.replay.case import DecisionCase
from controller.replay.leaderships import ASKED_BY, check_leadership
from controller.replay.term import ReplayedTerm, assignment_of, has_leadership, without_repetition
from controller.replay.verdicts import NO_BEGINNING, NO_LIVENESS, OtherDecision, Undecided, Verdict
from state_log.reasons import INITIALISED
from state_log.record import Kind, LoggedStateChange, by_partition

_LIVE_BY_ISR: Final = frozenset({INITIALISED, Offline.__name__, ControlledShutdown.__name__})
"""Reasons of leaderships whose whole ISR is live."""

ReadState = Callable[[LoggedStateChange], LeaderAndIsr | None]
"""Finds the state before a record in the logs of other nodes; None if they have none."""


def nothing_read(record: LoggedStateChange) -> LeaderAndIsr | None:
    """Find no state: there are no other logs."""
    return None


class Replayed(Struct):
    """The sum over `logs` of controllers. `decisions`: how many were replayed, by name.

    `undecided`: how many could not be, by what was missing, with the first of them. `assumed`: what was taken from the
    decisions themselves, as no log says it.
    """

    logs: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    others: list[OtherDecision] = field(default_factory=list)
    undecided: dict[str, tuple[int, str]] = field(default_factory=dict)
    assumed: Counter[str] = field(default_factory=Counter)

    def add_undecided(self, missing: str, record: str, count: int = 1) -> None:
        before, first = self.undecided.get(missing, (0, record))
        self.undecided[missing] = before + count, first


class LogReplay:
    """Replays one controller's log: `take` each record in the order of its numbers, `finish` at the end.

    `replayed` gets what is found.
    """

    def __init__(self, replayed: Replayed, read_state: ReadState = nothing_read) -> None:
        self.replayed, self._read_state = replayed, read_state
        replayed.logs += 1
        self._term: ReplayedTerm | None = None
        self._event: list[LoggedStateChange] = []
        self._next_seq: int | None = None

    def take(self, record: LoggedStateChange) -> None:
        """Take the next record. One that was read before counts once."""
        if self._next_seq is not None and record.seq < self._next_seq:
            return
        if self._next_seq is not None and record.seq > self._next_seq:
            self.finish()
            self._term = None
        self._next_seq = record.seq + 1
        if record.kind is Kind.WITNESS:
            return
        if self._event and record.cause != self._event[0].cause:
            self.finish()
        self._event.append(record)

    def finish(self) -> None:
        """Replay the event that may not have been over."""
        event, self._event = self._event, []
        for position, record in enumerate(event):
            self._replay(record, event[position + 1 :])
        if self._term is not None:
            self._term.join_bounced()

    def replay_unfinished(self) -> Replayed:
        """Replay the last event on a copy of the state: what `finish` finds, if the log has no more of it."""
        ahead = LogReplay(Replayed(), self._read_state)
        ahead._event = list(self._event)
        if self._term is not None:
            ahead._term = self._term.copy({record.topic for record in self._event if record.topic is not None})
        ahead.finish()
        return ahead.replayed

    def _replay(self, record: LoggedStateChange, following: Sequence[LoggedStateChange]) -> None:
        if record.kind is Kind.CONTROLLER:
            self._term = ReplayedTerm(record) if record.to_state == "active" else None
            return
        term = self._term
        if term is None:
            if _is_decision(record):
                self.replayed.add_undecided(NO_BEGINNING, record.reference)
            return
        if record.kind is Kind.LOADED:
            for tp, part in by_partition(record):
                term.load(tp, part)
            return
        if not term.has_states and (record.cause != term.begun_by or record.kind is Kind.PARTITION):
            term.derive_states()
        if record.topic is None or record.partition is None:
            _apply_other(term, record)
        else:
            self._decide(term, TopicPartition(record.topic, record.partition), record, following)

    def _decide(
        self, term: ReplayedTerm, tp: TopicPartition, record: LoggedStateChange, following: Sequence[LoggedStateChange]
    ) -> None:
        for name, verdict in _replayed_steps(DecisionCase(term, tp, record, following), self._read_state):
            if isinstance(verdict, Undecided):
                self.replayed.add_undecided(verdict.missing, verdict.record)
                continue
            self.replayed.decisions[name] += 1
            if verdict is not None:
                self.replayed.others.append(verdict)
        if term.assumed:
            listed = ", ".join(map(str, sorted(term.assumed)))
            self.replayed.assumed[f"{NO_LIVENESS}: {listed} taken for live"] += 1
            term.assumed.clear()


def _is_decision(record: LoggedStateChange) -> bool:
    return record.kind in {Kind.PARTITION, Kind.ISR, Kind.ASSIGNMENT, Kind.REPLICA}


def _replayed_steps(case: DecisionCase, read_state: ReadState) -> Iterator[tuple[str, Verdict]]:
    """Replay what the record says, then take it over into the term."""
    term, tp, record = case.term, case.tp, case.record
    match record.kind:
        case Kind.PARTITION:
            _know_partition(term, tp, record)
            yield "partition", check_partition_move(case)
            if record.leader is not None:
                yield case.name, _check_leadership(case, read_state)
                _write(case, lambda written: changes.LeadersElected(written, record.reason or ""))
            elif (state := _partition_state(record)) is not None:
                term.context.apply(changes.PartitionsMoved({tp: state}))
        case Kind.ISR:
            yield case.name.rstrip("0123456789 "), _check_leadership(case, read_state)
            _write(case, lambda written: changes.LeadershipsWritten(written, record.reason or ""))
        case Kind.ASSIGNMENT:
            yield case.name, check_assignment(case)
            _assign(term, tp, record)
        case Kind.REPLICA:
            if record.to_state == ReplicaState.ONLINE and term.has_bounced(record.broker):
                term.join_bounced()
            yield "replica", check_replica_move(case)
            _move_replica(term, tp, record)
        case _:
            return


def _check_leadership(case: DecisionCase, read_state: ReadState) -> Verdict:
    record = case.record
    if not has_leadership(record):
        return Undecided(record.reference, case.name, "the leadership that was written")
    reason, decided = record.reason or "", case.decided
    if reason in _LIVE_BY_ISR or reason.startswith(ASKED_BY):
        case.term.assume_live(decided.isr)
    elif decided.leader != NO_LEADER:
        case.term.assume_live((decided.leader,))
    known = case.view.leaderships.known.get(case.tp)
    follows = known is not None and known.partition_epoch + 1 == record.partition_epoch
    return check_leadership(case._replace(before=known if follows else read_state(record)))


def _write(case: DecisionCase, change: Callable[[changes.Leaderships], changes.Change]) -> None:
    if has_leadership(case.record):
        case.term.context.apply(change({case.tp: case.decided}))


def _know_partition(term: ReplayedTerm, tp: TopicPartition, record: LoggedStateChange) -> None:
    """Take over the assignment of a partition that is new, or that no record has named."""
    assert record.topic is not None
    term.list_topic(record.topic, record.topic_id)
    if record.replicas and not term.context.topics.assignment(tp).replicas:
        term.assign(tp, assignment_of(record))


def _partition_state(record: LoggedStateChange) -> PartitionState | None:
    try:
        return PartitionState(record.to_state or "")
    except ValueError:
        return None


def _assign(term: ReplayedTerm, tp: TopicPartition, record: LoggedStateChange) -> None:
    assignment = without_repetition(assignment_of(record))
    term.know_move(tp)
    if record.to_state == REASSIGNMENT_COMPLETED:
        term.context.apply(changes.ReassignmentsCompleted({tp: assignment}))
        return
    term.context.apply(changes.ReassignmentsWritten({tp: assignment}))
    if record.to_state == REASSIGNMENT_STARTED:
        term.context.apply(changes.ReassignmentsStarted((tp,)))


def _move_replica(term: ReplayedTerm, tp: TopicPartition, record: LoggedStateChange) -> None:
    try:
        target = ReplicaState(record.to_state or "")
    except ValueError:
        return
    if record.broker is not None:
        broker = BrokerId(record.broker)
        before = term.replica_state(broker, tp) or ReplicaState.NON_EXISTENT
        term.context.apply(changes.ReplicasMoved(broker, {tp: before}, target))


def _apply_other(term: ReplayedTerm, record: LoggedStateChange) -> None:
    """Take over what the record says of a broker, or of a topic as a whole."""
    if record.kind is Kind.BROKER and record.broker is not None:
        _apply_broker(term, BrokerId(record.broker), record)
    elif record.topic is None:
        return
    elif record.kind is Kind.TOPIC:
        _apply_topic(term, record.topic, record)
    elif record.kind is Kind.DELETION and record.to_state == "started":
        term.context.apply(changes.DeletionsQueued((record.topic,)))
        term.context.apply(changes.DeletionsStarted((record.topic,)))


def _apply_broker(term: ReplayedTerm, broker: BrokerId, record: LoggedStateChange) -> None:
    epoch = record.broker_epoch
    match record.to_state:
        case "live":
            term.join(broker, epoch)  # type: ignore[arg-type]
        case "bounced":
            term.bounce(broker, epoch)  # type: ignore[arg-type]
        case "dead":
            term.leave(broker)
        case "shutting_down":
            term.context.apply(changes.BrokerShuttingDown(broker, 0 if epoch is None else epoch))  # type: ignore[arg-type]
        case _:
            return


def _apply_topic(term: ReplayedTerm, topic: str, record: LoggedStateChange) -> None:
    match record.to_state:
        case "created":
            term.list_topic(topic, record.topic_id)
        case "queued for deletion":
            term.context.apply(changes.DeletionsQueued((topic,)))
        case "deleted" | "removed":
            term.context.apply(changes.TopicsRemoved((topic,), deleted=record.to_state == "deleted"))
        case _:
            return
