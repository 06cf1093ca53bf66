"""Who shall lead: the four election strategies, and the plan of an election over many partitions.

ISR membership is judged from the leadership handed in, liveness from the view (PS-22). There is no no-op
strategy: leadership that stays as it is gets sent again by the replica machine's OnlineReplica move (PS-24).
Source: Kafka PartitionLeaderElectionAlgorithms, Election; KIP-106 for the unclean default.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, assert_never

from msgspec import Struct

from cluster.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.errors import ErrorCode
from cluster.partition import RECOVERING, LeaderAndIsr, TopicPartition
from controller.decisions.context_view import ContextView


class LeaderChoice(Struct, frozen=True):
    """A leader and the ISR it starts with. `unclean`: it was not in sync, so records may be lost."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    unclean: bool = False


class Offline(Struct, frozen=True):
    """For partitions whose leader is gone or that never had one. `allow_unclean` overrules the configuration."""

    allow_unclean: bool = False


class Reassign(Struct, frozen=True):
    """For partitions whose leader is not among the target replicas of their reassignment."""


class Preferred(Struct, frozen=True):
    """Back to the first assigned replica."""


class ControlledShutdown(Struct, frozen=True):
    """Away from brokers that asked to go."""


Strategy = Offline | Reassign | Preferred | ControlledShutdown


def choose_offline_leader(
    replicas: Sequence[BrokerId], isr: Sequence[BrokerId], online: AbstractSet[BrokerId], *, allow_unclean: bool
) -> LeaderChoice | None:
    """The first assigned replica that is online and in sync; None when the partition has to stay offline.

    The new ISR is the old one without its dead members, in its old order. With no online member in the ISR,
    and only then, an unclean choice may fall on the first online assigned replica, which is its own ISR (PS-20).
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
    """The first target replica that is online and in sync; the ISR stays as it is."""
    leader = next((b for b in target if b in online and b in isr), None)
    return None if leader is None else LeaderChoice(leader, tuple(isr))


def choose_preferred_leader(
    replicas: Sequence[BrokerId], isr: Sequence[BrokerId], online: AbstractSet[BrokerId]
) -> LeaderChoice | None:
    """The first assigned replica, if it is online and in sync, even where it leads already (PS-23)."""
    if not replicas or replicas[0] not in online or replicas[0] not in isr:
        return None
    return LeaderChoice(replicas[0], tuple(isr))


def choose_leader_for_shutdown(
    replicas: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    online: AbstractSet[BrokerId],
    shutting_down: AbstractSet[BrokerId],
) -> LeaderChoice | None:
    """The first assigned replica in sync on a broker that stays; the leaving ones drop out of the ISR.

    `online` counts shutting-down brokers in.
    """
    leader = next((b for b in replicas if b in online and b in isr and b not in shutting_down), None)
    if leader is None:
        return None
    return LeaderChoice(leader, tuple(b for b in isr if b not in shutting_down))


class Election(Struct, frozen=True):
    """One elected leadership: write it if the partition epoch is still `leadership.partition_epoch` - 1.

    `recipients` get LeaderAndIsr once it is written; those not registered are dropped when it is sent.
    """

    topic_partition: TopicPartition
    leadership: LeaderAndIsr
    recipients: tuple[BrokerId, ...]
    unclean: bool


class ElectionFailure(NamedTuple):
    """Why a partition keeps its state: an expected outcome that callers translate for whoever asked.

    `code` says more than that nobody can lead where something else stood in the way.
    """

    reason: str
    code: ErrorCode = ErrorCode.NONE


NO_STATE_ZNODE: Final = ElectionFailure("leadership does not exist")
NEWER_CONTROLLER: Final = ElectionFailure("already written by another controller")


class ElectionPlan(Struct, frozen=True):
    """`elections` are to be written; partitions in `failures` keep the leadership and the state they have."""

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
    """Elect a leader for each partition of `current`, or say why not (PS-10 to PS-15).

    `current` is the leadership as ZooKeeper has it, None without a state node. `unclean_allowed` is asked for
    the topics of partitions without an online ISR member: whether their configuration allows an unclean
    leader, or why that could not be found out. `mark_recovering`: the protocol version knows the leader
    recovery state.
    """
    elections: list[Election] = []
    failures: dict[TopicPartition, ElectionFailure] = {}
    epoch = view.epoch
    nothing_chosen = ElectionFailure(f"no leader can be elected under strategy {type(strategy).__name__}")
    for tp, leadership in current.items():
        if leadership is None:
            failures[tp] = NO_STATE_ZNODE
            continue
        if leadership.controller_epoch > epoch:
            failures[tp] = NEWER_CONTROLLER
            continue
        allowed = unclean_allowed.get(tp.topic, False)
        if isinstance(allowed, ElectionFailure):
            if not has_online_isr_member(view, tp, leadership):
                failures[tp] = allowed
                continue
            allowed = False
        election = _elect(view, tp, leadership, strategy, unclean_allowed=allowed, mark_recovering=mark_recovering)
        if election is None:
            failures[tp] = nothing_chosen
        else:
            elections.append(election)
    return ElectionPlan(tuple(elections), failures)


def has_online_isr_member(view: ContextView, tp: TopicPartition, leadership: LeaderAndIsr) -> bool:
    return not view.online_brokers(tp).isdisjoint(leadership.isr)


def _elect(
    view: ContextView,
    tp: TopicPartition,
    leadership: LeaderAndIsr,
    strategy: Strategy,
    *,
    unclean_allowed: bool,
    mark_recovering: bool,
) -> Election | None:
    choice, recipients = _apply_strategy(view, tp, leadership.isr, strategy, unclean_allowed)
    if choice is None:
        return None
    recovery_state = RECOVERING if choice.unclean and mark_recovering else leadership.leader_recovery_state
    elected = next_leadership(leadership, choice.leader, choice.isr, view.epoch, recovery_state)
    return Election(tp, elected, recipients, choice.unclean)


def _apply_strategy(
    view: ContextView,
    tp: TopicPartition,
    isr: tuple[BrokerId, ...],
    strategy: Strategy,
    unclean_allowed: bool,
) -> tuple[LeaderChoice | None, tuple[BrokerId, ...]]:
    assignment = view.assignment(tp)
    replicas = assignment.replicas
    match strategy:
        case Offline(allow_unclean):
            online = view.online_brokers(tp)
            choice = choose_offline_leader(replicas, isr, online, allow_unclean=allow_unclean or unclean_allowed)
            return choice, tuple([b for b in replicas if b in online])
        case Reassign():
            target = assignment.target
            return choose_reassigned_leader(target, isr, view.online_brokers(tp)), target
        case Preferred():
            return choose_preferred_leader(replicas, isr, view.online_brokers(tp)), replicas
        case ControlledShutdown():
            online = view.online_brokers(tp, include_shutting_down=True)
            choice = choose_leader_for_shutdown(replicas, isr, online, view.shutting_down)
            return choice, tuple([b for b in replicas if b in online])
        case _:
            assert_never(strategy)


def next_leadership(
    leadership: LeaderAndIsr,
    leader: BrokerId,
    isr: tuple[BrokerId, ...],
    controller_epoch: ControllerEpoch,
    recovery_state: int,
) -> LeaderAndIsr:
    """The decision that follows `leadership`: leader epoch and partition epoch each one up (PS-15)."""
    return LeaderAndIsr(
        leader,
        LeaderEpoch(leadership.leader_epoch + 1),
        isr,
        controller_epoch,
        PartitionEpoch(leadership.partition_epoch + 1),
        recovery_state,
    )
