"""Leader election: the four election strategies, and plans for many partitions.

ISR membership is taken from the given leadership, liveness from the view (PS-22). There is no no-op strategy: an
unchanged leadership is sent again by the replica state machine's OnlineReplica transition (PS-24). Source: Kafka
PartitionLeaderElectionAlgorithms, Election; KIP-106 for the unclean default.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, assert_never

from msgspec import Struct

from cluster.model.bounds import LEADER_EPOCH_IN_ZNODE
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import RECOVERING, LeaderAndIsr, TopicPartition
from controller.decisions.context_view import ContextView


class LeaderChoice(Struct, frozen=True):
    """A leader and the ISR it starts with. `unclean`: it was not in sync, so records may be lost."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    unclean: bool = False


class Offline(Struct, frozen=True):
    """For partitions without a live leader. `allow_unclean` overrides the configuration."""

    allow_unclean: bool = False


class Reassign(Struct, frozen=True):
    """For partitions whose leader is not among the target replicas of their reassignment.

    `staying`: instead, for partitions whose leader is about to be removed (D-96): the replicas that are to stay.
    """

    staying: Mapping[TopicPartition, tuple[BrokerId, ...]] | None = None


class Preferred(Struct, frozen=True):
    """For moving leadership to the preferred replica."""


class ControlledShutdown(Struct, frozen=True):
    """For partitions led by brokers that are shutting down."""


class Damaged(Struct, frozen=True):
    """For partitions whose replica on `broker` has lost records: it leaves the ISR, and another one leads.

    `found_by`: what found the damage; the reason that is recorded.
    """

    broker: BrokerId
    found_by: str


Strategy = Offline | Reassign | Preferred | ControlledShutdown | Damaged


def reason_of(strategy: Strategy) -> str:
    """The reason that the records of an election have."""
    return strategy.found_by if isinstance(strategy, Damaged) else type(strategy).__name__


def choose_offline_leader(
    replicas: Sequence[BrokerId], isr: Sequence[BrokerId], online: AbstractSet[BrokerId], *, allow_unclean: bool
) -> LeaderChoice | None:
    """The first assigned replica that is online and in sync; None if the partition has to stay offline.

    The new ISR is the old one without offline members, in the same order. Only if no ISR member is online, an unclean
    election may choose the first online assigned replica, which becomes the only ISR member (PS-20).
    """
    live_isr = tuple([b for b in isr if b in online])
    if live_isr:
        leader = next((b for b in replicas if b in live_isr), None)
        return None if leader is None else LeaderChoice(leader, live_isr)
    if not allow_unclean:
        return None
    leader = next((b for b in replicas if b in online), None)
    return None if leader is None else LeaderChoice(leader, (leader,), unclean=True)


def choose_reassigned_leader(
    target: Sequence[BrokerId], isr: Sequence[BrokerId], online: AbstractSet[BrokerId]
) -> LeaderChoice | None:
    """The first target replica that is online and in sync; the ISR stays unchanged."""
    leader = next((b for b in target if b in online and b in isr), None)
    return None if leader is None else LeaderChoice(leader, tuple(isr))


def choose_preferred_leader(
    replicas: Sequence[BrokerId], isr: Sequence[BrokerId], online: AbstractSet[BrokerId]
) -> LeaderChoice | None:
    """The first assigned replica, if it is online and in sync, even if it is the leader already (PS-23)."""
    if not replicas or replicas[0] not in online or replicas[0] not in isr:
        return None
    return LeaderChoice(replicas[0], tuple(isr))


def choose_leader_for_shutdown(
    replicas: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    electable: AbstractSet[BrokerId],
    shutting_down: AbstractSet[BrokerId],
) -> LeaderChoice | None:
    """The first assigned replica that is in sync and can be elected; brokers that are shutting down leave the ISR."""
    leader = next((b for b in replicas if b in electable and b in isr and b not in shutting_down), None)
    if leader is None:
        return None
    return LeaderChoice(leader, tuple(b for b in isr if b not in shutting_down))


def choose_sound_leader(
    replicas: Sequence[BrokerId], isr: Sequence[BrokerId], leader: BrokerId, sound: AbstractSet[BrokerId]
) -> LeaderChoice | None:
    """The present leader, else the first assigned replica that is in sync; only `sound` ones, which form the ISR."""
    sound_isr = tuple(b for b in isr if b in sound)
    chosen = leader if leader in sound_isr else next((b for b in replicas if b in sound_isr), None)
    return None if chosen is None else LeaderChoice(chosen, sound_isr)


class Election(Struct, frozen=True):
    """An elected leadership, to be written if the partition epoch is still `leadership.partition_epoch` - 1.

    `recipients` get LeaderAndIsr after the write; unregistered ones are dropped on sending.
    """

    topic_partition: TopicPartition
    leadership: LeaderAndIsr
    recipients: tuple[BrokerId, ...]
    unclean: bool


class ElectionFailure(NamedTuple):
    """Why a partition keeps its state; an expected outcome that callers translate for the requester.

    `code`: set if the reason is something other than the lack of an eligible leader.
    """

    reason: str
    code: ErrorCode = ErrorCode.NONE


NO_STATE_ZNODE: Final = ElectionFailure("leadership does not exist")
NEWER_CONTROLLER: Final = ElectionFailure("already written by another controller")
NO_LEADER_EPOCH_LEFT: Final = ElectionFailure(
    f"leader epoch {LEADER_EPOCH_IN_ZNODE.maximum} is the highest there can be; see klamm cluster health"
)


def has_epoch_left(leadership: LeaderAndIsr) -> bool:
    """Whether a leader epoch can follow that the state znode may have (D-43)."""
    return leadership.leader_epoch < LEADER_EPOCH_IN_ZNODE.maximum


class ElectionPlan(Struct, frozen=True):
    """`elections`: to be written. Partitions in `failures` keep their leadership and state."""

    elections: tuple[Election, ...]
    failures: dict[TopicPartition, ElectionFailure]

    @property
    def writes(self) -> dict[TopicPartition, LeaderAndIsr]:
        return {election.topic_partition: election.leadership for election in self.elections}


def plan_elections(
    view: ContextView,
    current: Mapping[TopicPartition, LeaderAndIsr | None],
    strategy: Strategy,
    unclean_allowed: Mapping[str, bool | ElectionFailure],
    *,
    mark_recovering: bool,
) -> ElectionPlan:
    """Elect a leader for each partition of `current`, or return the reason why not (PS-10 to PS-15).

    `current`: the leadership in ZooKeeper, None without a state znode. `unclean_allowed`: for topics of partitions
    without an ISR member to wait for, whether their config allows an unclean leader, or why it could not be read.
    `mark_recovering`: whether the protocol version has the leader recovery state.
    """
    elections: list[Election] = []
    failures: dict[TopicPartition, ElectionFailure] = {}
    epoch = view.epoch
    for tp, leadership in current.items():
        if leadership is None:
            failures[tp] = NO_STATE_ZNODE
            continue
        if leadership.controller_epoch > epoch:
            failures[tp] = NEWER_CONTROLLER
            continue
        if not has_epoch_left(leadership):
            failures[tp] = NO_LEADER_EPOCH_LEFT
            continue
        # Another partition of the topic may have lost all members of its ISR; this one waits for what it has (D-41).
        allowed = False if has_isr_member_to_wait_for(view, tp, leadership) else unclean_allowed.get(tp.topic, False)
        if isinstance(allowed, ElectionFailure):
            failures[tp] = allowed
            continue
        election = _elect(view, tp, leadership, strategy, unclean_allowed=allowed, mark_recovering=mark_recovering)
        if election is None:
            failures[tp] = _nobody_eligible(view, tp, leadership, strategy)
        else:
            elections.append(election)
    return ElectionPlan(tuple(elections), failures)


def _nobody_eligible(
    view: ContextView, tp: TopicPartition, leadership: LeaderAndIsr, strategy: Strategy
) -> ElectionFailure:
    """Says which replicas there are, and which of them are alive."""
    replicas = view.topics.assignment(tp).replicas
    online = view.brokers.online_for(tp)
    alive = [b for b in replicas if b in online]
    if not alive:
        return ElectionFailure(f"none of the replicas is alive: start one of the brokers {_listed(replicas)}")
    return ElectionFailure(
        f"no leader can be elected under strategy {type(strategy).__name__}: "
        f"replicas {_listed(replicas)}, of which {_listed(alive)} alive, ISR {_listed(leadership.isr)}"
    )


def _listed(brokers: Sequence[BrokerId]) -> str:
    return ", ".join(map(str, brokers))


def has_isr_member_to_wait_for(view: ContextView, tp: TopicPartition, leadership: LeaderAndIsr) -> bool:
    """Whether a member of the ISR is online, or is as soon as its broker has named its damaged replicas (D-42)."""
    there = view.brokers.online_for(tp)
    return not (there.isdisjoint(leadership.isr) and view.damage.awaited_reports.keys().isdisjoint(leadership.isr))


def _elect(
    view: ContextView,
    tp: TopicPartition,
    leadership: LeaderAndIsr,
    strategy: Strategy,
    *,
    unclean_allowed: bool,
    mark_recovering: bool,
) -> Election | None:
    choice, recipients = _apply_strategy(view, tp, leadership, strategy, unclean_allowed)
    if choice is None:
        return None
    recovery_state = RECOVERING if choice.unclean and mark_recovering else leadership.leader_recovery_state
    elected = next_leadership(leadership, choice.leader, choice.isr, view.epoch, recovery_state)
    return Election(tp, elected, recipients, choice.unclean)


def _apply_strategy(
    view: ContextView, tp: TopicPartition, leadership: LeaderAndIsr, strategy: Strategy, unclean_allowed: bool
) -> tuple[LeaderChoice | None, tuple[BrokerId, ...]]:
    assignment, isr = view.topics.assignment(tp), leadership.isr
    replicas = assignment.replicas
    match strategy:
        case Offline(allow_unclean):
            online = view.brokers.online_for(tp)
            # Who asks for an unclean election does not wait for a better replica than the damaged one.
            candidates = online if allow_unclean else view.damage.electable_brokers(tp)
            choice = choose_offline_leader(replicas, isr, candidates, allow_unclean=allow_unclean or unclean_allowed)
            return choice, tuple([b for b in replicas if b in online])
        case Reassign(staying) if staying is not None:
            # The others are in sync until their removal is written, but an ISR never exceeds the assignment.
            assigned = tuple([b for b in isr if b in replicas])
            return choose_reassigned_leader(staying[tp], assigned, view.damage.electable_brokers(tp)), replicas
        case Reassign():
            target = assignment.target
            return choose_reassigned_leader(target, isr, view.damage.electable_brokers(tp)), target
        case Preferred():
            return choose_preferred_leader(replicas, isr, view.damage.electable_brokers(tp)), replicas
        case ControlledShutdown():
            online = view.brokers.online_for(tp, include_shutting_down=True)
            electable = view.damage.electable_brokers(tp)
            choice = choose_leader_for_shutdown(replicas, isr, electable, view.brokers.shutting_down)
            return choice, tuple([b for b in replicas if b in online])
        case Damaged(broker):
            sound = view.damage.electable_brokers(tp) - {broker}
            return choose_sound_leader(replicas, isr, leadership.leader, sound), replicas
        case _:
            assert_never(strategy)


def next_leadership(
    leadership: LeaderAndIsr,
    leader: BrokerId,
    isr: tuple[BrokerId, ...],
    controller_epoch: ControllerEpoch,
    recovery_state: int,
) -> LeaderAndIsr:
    """The successor of `leadership`: leader epoch and partition epoch each incremented by one (PS-15)."""
    return LeaderAndIsr(
        leader,
        LeaderEpoch(leadership.leader_epoch + 1),
        isr,
        controller_epoch,
        PartitionEpoch(leadership.partition_epoch + 1),
        recovery_state,
    )
