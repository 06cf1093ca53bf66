"""The reference model of the rules between the records of one partition: its history, one record after the other.

The simulator and the tests run it; the audit has the same rules over columns (`audit/rules`), and a test on random
histories holds that both find the same.

Records of different nodes arrive in any order. Those of controllers are ordered by partition epoch (the version of the
state znode), not by arrival: a late record is inserted and compared with its neighbours. A record older than the last
`HISTORY_LIMIT` epochs cannot be inserted and is not checked. Within one incarnation of a node, records must arrive in
the order of their sequence numbers.

Without topic ids, a deleted and re-created partition is distinguished only by its transition to NonExistentPartition,
and a late record of the old one is attributed to the new one.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from cluster.model.broker import BrokerId
from cluster.model.state_machines import PartitionState
from state_log.causes import READ_FROM_LEADER, is_written_isr
from state_log.decision_histories import DecidedState, decision_violations
from state_log.record import Kind, LoggedStateChange

HISTORY_LIMIT: Final = 256
"""Number of partition epochs, of leader epochs, and of incarnations of nodes, kept per partition for comparison."""
INCARNATIONS_LIMIT: Final = 8
"""Number of successive topics of the same name that are kept apart."""

NO_EPOCH: Final = -1

ONE_LEADER_PER_EPOCH: Final = "one-leader-per-epoch"
ONE_STATE_PER_PARTITION_EPOCH: Final = "one-state-per-partition-epoch"
LEADER_EPOCH_NEVER_BACK: Final = "leader-epoch-never-back"
LEADER_EPOCH_BY_ONE: Final = "leader-epoch-by-one"
PARTITION_EPOCH_NEVER_BACK: Final = "partition-epoch-never-back"
CONTROLLER_EPOCH_NEVER_BACK: Final = "controller-epoch-never-back"
LEADER_FROM_ISR: Final = "leader-from-isr"

WRITTEN_BY_CONTROLLERS: Final = frozenset({Kind.LOADED, Kind.PARTITION, Kind.REPLICA, Kind.ISR})


class HistoryViolation(NamedTuple):
    """A violated invariant: message and references of the records concerned."""

    rule: str
    message: str
    records: tuple[str, ...]


class State(Struct, frozen=True, array_like=True):
    """The content of a partition's state znode at one partition epoch.

    Controllers of `first_controller_epoch` to `last_controller_epoch` knew it as current: one wrote it, later ones
    loaded or re-sent it. Where a leader wrote it, the first is NO_EPOCH, and the last one too if no controller has read
    it.
    """

    partition_epoch: int
    leader_epoch: int
    leader: int
    isr: tuple[int, ...]
    first_controller_epoch: int
    last_controller_epoch: int
    record: str
    reason: str = ""


class LeaderClaim(Struct, frozen=True, array_like=True):
    """A record states that this broker (-1: none) is the leader in a leader epoch."""

    leader: int
    record: str


class Shown(Struct, frozen=True, array_like=True):
    """An epoch, and the record that shows it."""

    epoch: int
    record: str


class TopicIncarnation(Struct):
    """The partition in one topic incarnation: `states` by partition epoch, `claims` by leader
    epoch; `views` by incarnation of a node: what it has shown last of each epoch, by the epoch's name.
    """

    states: list[State] = field(default_factory=list)
    claims: dict[int, list[LeaderClaim]] = field(default_factory=dict)
    views: dict[str, dict[str, Shown]] = field(default_factory=dict)
    forgotten_partition_epoch: int = NO_EPOCH
    forgotten_leader_epoch: int = NO_EPOCH


class PartitionHistory(Struct):
    """All incarnations of a partition name, by topic id ("" for records without one). Serialisable."""

    incarnations: dict[str, TopicIncarnation] = field(default_factory=dict)


def remember(history: PartitionHistory, record: LoggedStateChange) -> Iterator[HistoryViolation]:
    """Insert a record of this partition (see `by_partition`) and compare it with the history."""
    if record.kind is Kind.PARTITION and record.to_state == PartitionState.NON_EXISTENT and record.topic_id is None:
        history.incarnations.pop("", None)
        return
    topic_incarnation = _topic_incarnation(history, record)
    state = _state(record)
    if state is not None and state.partition_epoch > topic_incarnation.forgotten_partition_epoch:
        yield from _place(topic_incarnation, state)
    yield from _claim(topic_incarnation, record)
    yield from _view(topic_incarnation, record)


def _topic_incarnation(history: PartitionHistory, record: LoggedStateChange) -> TopicIncarnation:
    incarnations = history.incarnations
    if record.topic_id is None:
        if len(incarnations) > 1:
            # The incarnation is ambiguous, so the record is compared with nothing.
            return TopicIncarnation()
        return next(iter(incarnations.values())) if incarnations else incarnations.setdefault("", TopicIncarnation())
    if record.topic_id not in incarnations:
        incarnations[record.topic_id] = incarnations.pop("") if list(incarnations) == [""] else TopicIncarnation()
        if len(incarnations) > INCARNATIONS_LIMIT:
            del incarnations[next(iter(incarnations))]
    return incarnations[record.topic_id]


def _state(record: LoggedStateChange) -> State | None:
    """The state znode's content, None if the record does not have it, or is not of one who wrote or read it."""
    by_controller = record.kind in WRITTEN_BY_CONTROLLERS and record.controller_epoch is not None
    if (
        not (by_controller or is_written_isr(record))
        or record.leader is None
        or record.leader_epoch is None
        or record.partition_epoch is None
        or record.isr is None
    ):
        return None
    known_to = NO_EPOCH if record.controller_epoch is None else record.controller_epoch
    return State(
        record.partition_epoch,
        record.leader_epoch,
        record.leader,
        record.isr,
        NO_EPOCH if record.reason == READ_FROM_LEADER or is_written_isr(record) else known_to,
        known_to,
        record.reference,
        record.reason or "",
    )


def _place(topic_incarnation: TopicIncarnation, state: State) -> Iterator[HistoryViolation]:
    states = topic_incarnation.states
    at = bisect_left(states, state.partition_epoch, key=lambda s: s.partition_epoch)
    known = states[at] if at < len(states) and states[at].partition_epoch == state.partition_epoch else None
    if known is None:
        states.insert(at, state)
        starts_earlier = ends_later = True
    else:
        yield from _same_state(known, state)
        starts_earlier = state.first_controller_epoch < known.first_controller_epoch
        ends_later = state.last_controller_epoch > known.last_controller_epoch
        states[at] = replace(
            known,
            first_controller_epoch=min(known.first_controller_epoch, state.first_controller_epoch),
            last_controller_epoch=max(known.last_controller_epoch, state.last_controller_epoch),
        )
    if at > 0:
        if starts_earlier:
            yield from _controller_epochs_in_order(states[at - 1], states[at], state.record)
        if known is None:
            yield from _follows(states[at - 1], states[at])
    if at + 1 < len(states):
        if ends_later:
            yield from _controller_epochs_in_order(states[at], states[at + 1], state.record)
        if known is None:
            yield from _follows(states[at], states[at + 1])
    if len(states) > HISTORY_LIMIT:
        topic_incarnation.forgotten_partition_epoch = states.pop(0).partition_epoch


def _same_state(known: State, state: State) -> Iterator[HistoryViolation]:
    same = (
        known.leader == state.leader and known.leader_epoch == state.leader_epoch and set(known.isr) == set(state.isr)
    )
    if not same:
        message = f"partition epoch {state.partition_epoch} was written as {_describe(known)} and as {_describe(state)}"
        yield HistoryViolation(ONE_STATE_PER_PARTITION_EPOCH, message, (known.record, state.record))


def _follows(before: State, after: State) -> Iterator[HistoryViolation]:
    """Check a state against the preceding known one (INV-1); some rules hold only between adjacent partition epochs."""
    records = (before.record, after.record)
    if after.leader_epoch < before.leader_epoch:
        message = f"leader epoch went from {before.leader_epoch} back to {after.leader_epoch}"
        yield HistoryViolation(LEADER_EPOCH_NEVER_BACK, message, records)
    if after.partition_epoch != before.partition_epoch + 1:
        return
    if after.leader_epoch > before.leader_epoch + 1:
        message = f"one write raised the leader epoch from {before.leader_epoch} to {after.leader_epoch}"
        yield HistoryViolation(LEADER_EPOCH_BY_ONE, message, records)
    if after.leader >= 0 and after.leader not in before.isr and after.isr != (after.leader,):
        message = f"leader {after.leader} was not in the ISR {list(before.isr)} and does not start an ISR of its own"
        yield HistoryViolation(LEADER_FROM_ISR, message, records)
    for rule, message in decision_violations(_decided(before), _decided(after)):
        yield HistoryViolation(rule, message, records)


def _decided(state: State) -> DecidedState:
    return DecidedState(state.leader, state.leader_epoch, state.isr, state.reason)


def _controller_epochs_in_order(before: State, after: State, record: str) -> Iterator[HistoryViolation]:
    """A controller that knew a state as current has fenced all earlier ones, which write no later state (INV-5).

    Not so leaders, whose states an earlier controller may read, too.
    """
    if NO_EPOCH < after.first_controller_epoch < before.last_controller_epoch:
        message = (
            f"controller epoch {after.first_controller_epoch} wrote partition epoch {after.partition_epoch} after "
            f"controller epoch {before.last_controller_epoch} had seen partition epoch {before.partition_epoch}"
        )
        others = [r for r in (before.record, after.record) if r != record]
        yield HistoryViolation(CONTROLLER_EPOCH_NEVER_BACK, message, (*others, record))


def _claim(topic_incarnation: TopicIncarnation, record: LoggedStateChange) -> Iterator[HistoryViolation]:
    """Check that there is at most one leader in a leader epoch, over records of controllers, leaders and followers
    (P7).
    """
    epoch, leader = record.leader_epoch, record.leader
    if record.kind is Kind.ROLE:
        if record.to_state == "leader":
            leader = leader if record.broker is None else BrokerId(record.broker)
        elif leader is not None and leader < 0:
            return
    if leader is None or epoch is None or epoch <= topic_incarnation.forgotten_leader_epoch:
        return
    claims = topic_incarnation.claims.setdefault(epoch, [])
    if all(claim.leader != leader for claim in claims):
        claims.append(LeaderClaim(leader, record.reference))
        if len(claims) > 1:
            message = f"leader epoch {epoch} has {' and '.join(_describe_leader(c.leader) for c in claims)}"
            yield HistoryViolation(ONE_LEADER_PER_EPOCH, message, tuple(c.record for c in claims))
    if len(topic_incarnation.claims) > HISTORY_LIMIT:
        topic_incarnation.forgotten_leader_epoch = min(topic_incarnation.claims)
        del topic_incarnation.claims[topic_incarnation.forgotten_leader_epoch]


def _view(topic_incarnation: TopicIncarnation, record: LoggedStateChange) -> Iterator[HistoryViolation]:
    """Check that no epoch that an incarnation of a node records is below the one that it recorded before (P17)."""
    if record.kind is Kind.TRUNCATION:
        # An agent writes these in batches, possibly after it has received a newer epoch.
        return
    views, incarnation = topic_incarnation.views, f"{record.node}/{record.incarnation}"
    if record.kind is Kind.ROLE and record.to_state == "deleted":
        views.pop(incarnation, None)
        return
    view = views.setdefault(incarnation, {})
    if record.kind is Kind.LOADED and record.topic_id is None:
        # Between two terms of one controller another may have deleted the topic and created it again.
        view.pop("leader epoch", None)
        view.pop("partition epoch", None)
    if record.leader_epoch is None or record.leader_epoch < 0:
        return
    # Agents receive states written by earlier controllers, so only a controller's own epochs are compared.
    writer_epoch = record.controller_epoch if record.kind in WRITTEN_BY_CONTROLLERS else None
    for rule, name, epoch in (
        (LEADER_EPOCH_NEVER_BACK, "leader epoch", record.leader_epoch),
        (PARTITION_EPOCH_NEVER_BACK, "partition epoch", record.partition_epoch),
        (CONTROLLER_EPOCH_NEVER_BACK, "controller epoch", writer_epoch),
    ):
        if epoch is None:
            continue
        before = view.get(name)
        if before is not None and epoch < before.epoch:
            message = f"{record.node} showed {name} {epoch} after {before.epoch}"
            yield HistoryViolation(rule, message, (before.record, record.reference))
        view[name] = Shown(epoch, record.reference)
    if len(views) > HISTORY_LIMIT:
        del views[next(iter(views))]


def _describe(state: State) -> str:
    return f"leader {state.leader}, leader epoch {state.leader_epoch}, ISR {list(state.isr)}"


def _describe_leader(leader: int) -> str:
    return f"leader {leader}" if leader >= 0 else "no leader"
