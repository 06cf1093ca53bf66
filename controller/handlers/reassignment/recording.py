"""The first steps of a reassignment: what is wanted goes to ZooKeeper, and replicas that it no longer has are removed.

No live replica in sync is ever without a leader, and a broker is told to stop a replica only under a leader epoch that
is new to it, because brokers before Kafka 3.4.1 ignore a request under one that they know (KAFKA-14808, KAFKA-13972).
Source: Kafka KafkaController.updateCurrentReassignment, stopRemovedReplicasOfReassignedPartition.
"""

from collections.abc import Callable, Iterable, Mapping

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller import changes
from controller.active_controller import ActiveController
from controller.decisions.broker_requests import NO_ASSIGNMENTS
from controller.decisions.partitions.leader_election import ElectionFailure, Reassign
from controller.decisions.reassignment.phases import (
    RefusedMove,
    led_by_unneeded,
    plan_recording,
    with_replica_in_sync,
)
from controller.fenced_writes import Outcome, Written
from controller.handlers.partitions.partition_transitions import move_partitions
from controller.handlers.partitions.replica_transitions import Replicas, move_replicas
from controller.handlers.partitions.state_writes import Leaderships

Moves = Mapping[TopicPartition, ReplicaAssignment]
"""Partition -> the assignment of its ongoing or requested reassignment."""
Refusals = dict[TopicPartition, RefusedMove]
Staying = Mapping[TopicPartition, tuple[BrokerId, ...]]
"""Partition -> the replicas that it keeps."""


async def record_moves(active: ActiveController, moves: Moves) -> tuple[Refusals, Replicas]:
    """Write assignments to ZooKeeper, then apply them; stop replicas that are no longer wanted (RA-10, RA-11, D-96).

    The leader first: while the assignment still has all replicas, a crash can only have moved it. Returns the failures,
    and the unwanted replicas that the caller stops once it has raised the leader epoch.
    """
    failures = await elect_staying(active, led_by_unneeded(active.context, moves))
    plan = plan_recording(active.context, {tp: wanted for tp, wanted in moves.items() if tp not in failures})
    outcomes = await active.store.write_topics(plan.topics)
    failures |= unwritten(outcomes, plan.changed)
    active.commit(changes.ReassignmentsWritten({tp: moves[tp] for tp in plan.changed if tp not in failures}))
    unneeded = _only(plan.unneeded, lambda tp: tp not in failures)
    return failures, await _stop_with_those_in_sync(active, unneeded)


async def elect_staying(active: ActiveController, staying: Staying) -> Refusals:
    """Move leaderships to replicas that stay; returns the partitions where that failed, with the reason."""
    outcomes = await move_partitions(active, list(staying), PartitionState.ONLINE, Reassign(staying))
    return {
        tp: RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, outcome.reason)
        for tp, outcome in outcomes.items()
        if isinstance(outcome, ElectionFailure)
    }


async def stop_removed_replicas(
    active: ActiveController, replicas: Replicas, announced: changes.Assignments = NO_ASSIGNMENTS
) -> set[TopicPartition]:
    """Remove replicas that are no longer assigned from their ISRs and send StopReplica with deletion (RA-20).

    The deletion is not awaited or verified (RA-24, D-10). Returns the partitions whose shorter ISR ZooKeeper refused;
    their replicas are not deleted.
    """
    removing = _by_partition(replicas)
    await move_replicas(active, replicas, ReplicaState.OFFLINE, removing=removing, announced=announced)
    context = active.context
    offline = {
        broker: [tp for tp in partitions if context.replicas.state(broker, tp) is ReplicaState.OFFLINE]
        for broker, partitions in replicas.items()
    }
    for state in (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT):
        await move_replicas(active, offline, state)
    return {tp for broker, partitions in replicas.items() for tp in partitions if tp not in offline[broker]}


def unwritten(outcomes: Mapping[str, Outcome], partitions: Iterable[TopicPartition]) -> Refusals:
    """The partitions whose topic znode ZooKeeper did not write."""
    return {
        tp: RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, f"the topic node cannot be written: {outcomes[tp.topic]}")
        for tp in partitions
        if not isinstance(outcomes[tp.topic], Written)
    }


async def _stop_with_those_in_sync(active: ActiveController, unneeded: Replicas) -> Replicas:
    """Stop the unneeded replicas of partitions that have one in the ISR; returns those of the others.

    Leaving the ISR raises the leader epoch. Elsewhere it is raised only by what follows.
    """
    if not unneeded:
        return unneeded
    leaderships: Leaderships = active.context.leaderships.known
    if not active.config.protocol_version.has_alter_partition:
        # Leaders write the ISR.
        leaderships = await active.store.read_states(
            sorted({tp for of_broker in unneeded.values() for tp in of_broker})
        )
    in_sync = with_replica_in_sync(unneeded, leaderships)
    await stop_removed_replicas(active, _only(unneeded, lambda tp: tp in in_sync))
    return _only(unneeded, lambda tp: tp not in in_sync)


def _only(replicas: Replicas, is_meant: Callable[[TopicPartition], bool]) -> dict[BrokerId, list[TopicPartition]]:
    found = {broker: [tp for tp in partitions if is_meant(tp)] for broker, partitions in replicas.items()}
    return {broker: partitions for broker, partitions in found.items() if partitions}


def _by_partition(replicas: Replicas) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    found: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for broker in sorted(replicas):
        for tp in replicas[broker]:
            found[tp] = (*found.get(tp, ()), broker)
    return found
