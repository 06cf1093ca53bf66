"""Replica state machine: valid transitions, and the ISR after a replica goes offline.

Source: Kafka ZkReplicaStateMachine; the transition table is `cluster.model.state_machines`.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.broker import NO_LEADER, BrokerId, ControllerEpoch
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PREVIOUS_REPLICA_STATES, ReplicaState
from controller.decisions.context_view import ContextView
from controller.decisions.partitions.leader_election import (
    NEWER_CONTROLLER,
    NO_STATE_ZNODE,
    ElectionFailure,
    has_epoch_left,
    next_leadership,
)


class ReplicaMoves(Struct, frozen=True):
    """`valid`: partition -> state before the transition. `refused`: skipped, each with its current state (RM-3)."""

    valid: dict[TopicPartition, ReplicaState]
    refused: dict[TopicPartition, ReplicaState]


def plan_replica_moves(
    view: ContextView, broker: BrokerId, partitions: Sequence[TopicPartition], target: ReplicaState
) -> ReplicaMoves:
    """Divide a broker's replicas into those that may pass to the target state and those that may not, with their
    states.
    """
    allowed, states = PREVIOUS_REPLICA_STATES[target], view.replicas.states_on(broker, partitions)
    if allowed.issuperset(states.values()):
        return ReplicaMoves(states, {})
    valid: dict[TopicPartition, ReplicaState] = {}
    refused: dict[TopicPartition, ReplicaState] = {}
    for tp, state in states.items():
        (valid if state in allowed else refused)[tp] = state
    return ReplicaMoves(valid, refused)


@lru_cache(8_192)
def _without(isr: tuple[BrokerId, ...], broker: BrokerId) -> tuple[BrokerId, ...]:
    """The ISR without a broker: one object for all partitions that lose the same one from the same ISR."""
    return tuple([b for b in isr if b != broker])


def remove_from_isr(
    leadership: LeaderAndIsr, broker: BrokerId, controller_epoch: ControllerEpoch
) -> LeaderAndIsr | None:
    """The leadership without this broker in the ISR; None if it is not in the ISR (RM-10).

    The last in-sync replica remains listed, so that it, and only it, can be elected cleanly later.
    """
    if broker not in leadership.isr:
        return None
    leader = NO_LEADER if leadership.leader == broker else leadership.leader
    isr = leadership.isr if len(leadership.isr) == 1 else _without(leadership.isr, broker)
    return next_leadership(leadership, leader, isr, controller_epoch, leadership.leader_recovery_state)


def step_down(leadership: LeaderAndIsr, broker: BrokerId, controller_epoch: ControllerEpoch) -> LeaderAndIsr | None:
    """The leadership without this broker as leader, and with the ISR as it is; None if it does not lead."""
    if broker != leadership.leader:
        return None
    recovery_state = leadership.leader_recovery_state
    return next_leadership(leadership, NO_LEADER, leadership.isr, controller_epoch, recovery_state)


def _nobody_is_left(view: ContextView, tp: TopicPartition, leadership: LeaderAndIsr, broker: BrokerId) -> bool:
    """Whether no other member of the ISR leads or can be elected now, though there are others (D-120).

    It matters after a power failure: no broker is registered, or a member is in doubt. Who is to lead is then decided
    by what each member has when it is back; the last one that happens to stay in the ISR may lack what the others have.
    Otherwise, and where a replica moves away, the ISR shrinks as in Kafka (RM-10).
    """
    others = [b for b in leadership.isr if b != broker]
    if not others or broker in view.topics.assignment(tp).removing:
        return False
    there = view.brokers.online_for(tp, include_shutting_down=True)
    if leadership.leader in others and leadership.leader in there:
        return False
    is_in_doubt = any(b in view.damage.awaited_reports or tp in view.damage.held_on(b) for b in leadership.isr)
    if view.brokers.registered_ids and not is_in_doubt:
        return False
    return view.damage.electable_brokers(tp).isdisjoint(others)


class IsrRemovalPlan(Struct, frozen=True):
    """`writes`: to be written if the partition epoch in ZooKeeper is one less. `unchanged`: only sent again (RM-11).

    `ignored`: without a state znode and of a topic queued for deletion; these keep their replica state, too (RM-12).
    """

    writes: dict[TopicPartition, LeaderAndIsr]
    unchanged: dict[TopicPartition, LeaderAndIsr]
    ignored: tuple[TopicPartition, ...]
    failures: dict[TopicPartition, ElectionFailure]


def plan_isr_removals(
    view: ContextView,
    broker: BrokerId,
    current: Mapping[TopicPartition, LeaderAndIsr | None],
    *,
    shrinks_to_last: bool,
) -> IsrRemovalPlan:
    """Remove `broker` from the ISR of each partition of `current`, which is the leadership in ZooKeeper.

    `shrinks_to_last`: whether that leaves, of members that are all offline, the last one, as in Kafka; otherwise they
    all stay, and the broker only loses the leadership (D-120).
    """
    writes: dict[TopicPartition, LeaderAndIsr] = {}
    unchanged: dict[TopicPartition, LeaderAndIsr] = {}
    ignored: list[TopicPartition] = []
    failures: dict[TopicPartition, ElectionFailure] = {}
    epoch = view.epoch
    for tp, leadership in current.items():
        if leadership is None:
            if tp.topic in view.deletions.queued:
                ignored.append(tp)
            else:
                failures[tp] = NO_STATE_ZNODE
        elif leadership.controller_epoch > epoch:
            failures[tp] = NEWER_CONTROLLER
        else:
            shrunk = None
            if has_epoch_left(leadership):
                stays = not shrinks_to_last and _nobody_is_left(view, tp, leadership, broker)
                remove = step_down if stays else remove_from_isr
                shrunk = remove(leadership, broker, epoch)
            if shrunk is None:
                unchanged[tp] = replace(leadership, controller_epoch=epoch)
            else:
                writes[tp] = shrunk
    return IsrRemovalPlan(writes, unchanged, tuple(ignored), failures)
