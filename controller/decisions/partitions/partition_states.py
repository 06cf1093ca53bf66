"""Partition state machine: valid transitions, and the first leadership of a new partition.

Source: Kafka ZkPartitionStateMachine; the transition table is `cluster.model.state_machines`.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from cluster.model.broker import INITIAL_LEADER_EPOCH, INITIAL_PARTITION_EPOCH
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PREVIOUS_PARTITION_STATES, PartitionState
from controller.decisions.context_view import ContextView
from controller.decisions.partitions.leader_election import ElectionFailure


class PartitionMoves(Struct, frozen=True):
    """`valid`: may move. `refused`: skipped, each with its current state (PS-5)."""

    valid: tuple[TopicPartition, ...]
    refused: dict[TopicPartition, PartitionState]


def plan_partition_moves(
    state_of: Callable[[TopicPartition], PartitionState], partitions: Iterable[TopicPartition], target: PartitionState
) -> PartitionMoves:
    """Divide partitions into those that may pass to the target state and those that may not, with their states."""
    allowed = PREVIOUS_PARTITION_STATES[target]
    valid: list[TopicPartition] = []
    refused: dict[TopicPartition, PartitionState] = {}
    for tp in partitions:
        state = state_of(tp)
        if state in allowed:
            valid.append(tp)
        else:
            refused[tp] = state
    return PartitionMoves(tuple(valid), refused)


def initial_partition_state(view: ContextView, tp: TopicPartition) -> PartitionState:
    """The state of a partition when a controller becomes active (PS-30)."""
    leadership = view.leaderships.known.get(tp)
    if leadership is None:
        return PartitionState.NEW
    return PartitionState.ONLINE if leadership.leader in view.brokers.online_for(tp) else PartitionState.OFFLINE


class InitialisationPlan(Struct, frozen=True):
    """First leaderships, to create state znodes with; partitions without a live replica fail (PS-7)."""

    creations: dict[TopicPartition, LeaderAndIsr]
    failures: dict[TopicPartition, ElectionFailure]


def plan_initialisations(view: ContextView, partitions: Iterable[TopicPartition]) -> InitialisationPlan:
    """The first live replica leads; all live replicas are in the ISR, in assignment order (PS-8)."""
    creations: dict[TopicPartition, LeaderAndIsr] = {}
    failures: dict[TopicPartition, ElectionFailure] = {}
    epoch = view.epoch
    for tp in partitions:
        online = view.brokers.online_for(tp)
        replicas = view.topics.assignment(tp).replicas
        # The same object as the assignment, where that says the same.
        live = replicas if online.issuperset(replicas) else tuple([b for b in replicas if b in online])
        if live:
            creations[tp] = LeaderAndIsr(live[0], INITIAL_LEADER_EPOCH, live, epoch, INITIAL_PARTITION_EPOCH)
        else:
            failures[tp] = ElectionFailure("no assigned replica is live")
    return InitialisationPlan(creations, failures)
