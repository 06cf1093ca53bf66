"""The engine that moves partitions: one call for new moves, replacements, cancellations, resumptions and completions.

It takes any number of partitions through each step together, so that ten thousand of them cost a few transactions per
step. Source: Kafka KafkaController.onPartitionReassignment; KIP-455.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from cluster.broker import BrokerId
from cluster.errors import ControllerMovedError, ErrorCode, SessionExpiredError, ZooKeeperError
from cluster.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.state_machines import PartitionState, ReplicaState
from controller.active_controller import ActiveController
from controller.changes import (
    Assignments,
    DeletionsIneligible,
    LeadershipsWritten,
    ReassignmentsCompleted,
    ReassignmentsStarted,
    ReassignmentsWritten,
)
from controller.context import ControllerContext
from controller.decisions.broker_requests import NO_ASSIGNMENTS
from controller.decisions.partitions.leader_election import ElectionFailure, Reassign
from controller.decisions.reassignment.phases import (
    EpochRaisePlan,
    RefusedMove,
    is_complete,
    is_entry_for,
    keeps_leader,
    plan_epoch_raises,
    plan_recording,
    reassigned_on,
    replicas_by_broker,
    topic_znodes,
)
from controller.fenced_writes import Outcome, Written
from controller.handlers.partitions.partition_transitions import move_partitions
from controller.handlers.partitions.replica_transitions import Replicas, move_replicas
from controller.handlers.partitions.state_writes import Current, Leaderships, write_in_rounds
from controller.handlers.reassignment.reassignment_znode import drop_reassignment_entries
from controller.handlers.topics.deletions import resume_deletions

_log = structlog.stdlib.get_logger()

Moves = Mapping[TopicPartition, ReplicaAssignment]
"""Partition -> the assignment in which it is on its way, or which it is to have."""
Refusals = dict[TopicPartition, RefusedMove]
_ISR_UNWRITTEN: Final = RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, "a removed replica cannot be taken out of the ISR")


async def reassign(active: ActiveController, moves: Moves) -> Refusals:
    """Record the moves, then start or complete each; those that failed, with the reason (RA-3).

    ControllerMovedError and SessionExpiredError end the event; another error of ZooKeeper fails all partitions.
    """
    if not moves:
        return {}
    try:
        failures = await _reassign(active, moves)
    except (ControllerMovedError, SessionExpiredError):
        raise
    except ZooKeeperError as error:
        _log.error("Partitions cannot be moved to other brokers", partitions=len(moves), error=str(error))
        active.resume_later()
        failures = dict.fromkeys(moves, RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
    active.reassignments_to_resume |= failures.keys()
    # A deletion that a move held back may begin (RA-27).
    await resume_deletions(active, {tp.topic for tp in moves if tp not in active.context.partitions_being_reassigned})
    return failures


async def complete_reassignments(active: ActiveController, partitions: Iterable[TopicPartition]) -> None:
    """After changes of ISRs: finish the moves whose targets are all in sync by now (RA-51, RA-31)."""
    context = active.context
    ongoing = [tp for tp in dict.fromkeys(partitions) if tp in context.partitions_being_reassigned]
    if active.config.protocol_version.has_alter_partition:
        # Every ISR came through here, so the context already tells which need no look at ZooKeeper.
        ongoing = [tp for tp in ongoing if is_complete(context.assignment(tp), context.leaderships.get(tp))]
    if not ongoing:
        return
    states = await _read_states(active, ongoing)
    await reassign(
        active,
        {tp: context.assignment(tp) for tp in ongoing if is_complete(context.assignment(tp), states.get(tp))},
    )


async def resume_reassignments_on(active: ActiveController, brokers: Iterable[BrokerId]) -> None:
    """Brokers started: tell them of the moves that they are targets of (BK-15)."""
    context = active.context
    if context.partitions_being_reassigned:
        concerned = reassigned_on(context, brokers)
        await reassign(active, {tp: context.assignment(tp) for tp in concerned})


async def stop_removed_replicas(
    active: ActiveController, replicas: Replicas, announced: Assignments = NO_ASSIGNMENTS
) -> set[TopicPartition]:
    """Take replicas that no assignment wants out of their ISRs, and have them deleted (RA-20).

    Nobody waits for the deletion or looks whether it was done (RA-24, D-10). Returns the partitions of which ZooKeeper
    did not take the shorter ISR: their replicas are not deleted.
    """
    removing = _by_partition(replicas)
    await move_replicas(active, replicas, ReplicaState.OFFLINE, removing=removing, announced=announced)
    context = active.context
    offline = {
        broker: [tp for tp in partitions if context.replica_state(broker, tp) is ReplicaState.OFFLINE]
        for broker, partitions in replicas.items()
    }
    for state in (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT):
        await move_replicas(active, offline, state)
    return {tp for broker, partitions in replicas.items() for tp in partitions if tp not in offline[broker]}


async def _reassign(active: ActiveController, moves: Moves) -> Refusals:
    active.commit(DeletionsIneligible(frozenset(tp.topic for tp in moves)))
    failures = await _record_moves(active, moves)
    recorded = {tp: assignment for tp, assignment in moves.items() if tp not in failures}
    active.commit(ReassignmentsStarted(tuple(recorded)))
    # Read now, and in the mode where leaders write the ISR watched from now on: nothing may come in between.
    states = await _read_states(active, list(recorded))
    complete = {tp: a for tp, a in recorded.items() if is_complete(a, states.get(tp))}
    waiting = {tp: a for tp, a in recorded.items() if tp not in complete}
    if waiting:
        failures |= await _start(active, waiting)
    if complete:
        failures |= await _complete(active, complete)
    _log.info("Reassignments", started=len(waiting), completed=len(complete), failed=len(failures))
    for tp, refusal in failures.items():
        _log.error("A partition cannot be moved to other brokers", partition=str(tp), reason=refusal.message)
    return failures


# Phase U


async def _record_moves(active: ActiveController, moves: Moves) -> Refusals:
    """ZooKeeper first, then memory; then replicas that are not wanted any more are stopped (RA-10, RA-11)."""
    context = active.context
    plan = plan_recording(context, moves)
    outcomes = await active.store.write_topics(plan.topics)
    failures = _unwritten(outcomes, plan.changed)
    written = {tp: moves[tp] for tp in plan.changed if tp not in failures}
    active.commit(ReassignmentsWritten(written))
    unneeded = {b: [tp for tp in partitions if tp in written] for b, partitions in plan.unneeded.items()}
    await stop_removed_replicas(active, unneeded)
    return failures


# Phase A


async def _start(active: ActiveController, moves: Moves) -> Refusals:
    """Tell old and new replicas of the longer list, under a new leader epoch; the new ones begin to copy."""
    raised, failures = await _raise_leader_epochs(active, list(moves))
    batch = active.new_batch()
    for tp, leadership in raised.items():
        assignment = moves[tp]
        batch.add_leader_and_isr(assignment.original, tp, leadership, assignment, is_new=False)
        # A new replica may take any healthy disk; an old one must not be made anew beside a failed disk (RA-13).
        batch.add_leader_and_isr(assignment.adding, tp, leadership, assignment, is_new=True)
    active.send(batch)
    # Only the first time: a move that is resumed finds its replicas in other states (RA-15). Where nobody has led yet
    # there is nothing to tell, but they begin all the same, as those of a new topic do: the first ISR takes them in.
    context = active.context
    begun = [tp for tp in moves if tp in raised or tp not in context.leaderships]
    fresh = replicas_by_broker(
        (tp, [b for b in moves[tp].adding if context.replica_state(b, tp) is ReplicaState.NON_EXISTENT]) for tp in begun
    )
    await move_replicas(active, fresh, ReplicaState.NEW)
    return failures


# Phase B


async def _complete(active: ActiveController, moves: Moves) -> Refusals:
    """Shrink to the target list: leader first, then the removed replicas, and the topic node last.

    The node is the only durable record of what has to be removed, so a controller that dies before it is written
    leaves what the next one needs to run this again (RA-25).
    """
    context = active.context
    # A replica that stays after all, although an attempt to remove it went as far as its deletion, begins anew.
    deleted = replicas_by_broker((tp, _deleted(context, tp, _staying(assignment))) for tp, assignment in moves.items())
    await move_replicas(active, deleted, ReplicaState.NEW)
    adding = replicas_by_broker((tp, assignment.adding) for tp, assignment in moves.items())
    for arrived in (deleted, adding):
        await move_replicas(active, arrived, ReplicaState.ONLINE)
    # Brokers are told of the target lists ahead of the topic nodes; the context keeps to what the nodes say.
    targets = {tp: ReplicaAssignment(assignment.target) for tp, assignment in moves.items()}
    failures = await _move_leaders(active, targets)
    removed = replicas_by_broker(
        (tp, [b for b in a.removing if b not in _deleted(context, tp, a.removing)])
        for tp, a in moves.items()
        if tp not in failures
    )
    failures |= dict.fromkeys(await stop_removed_replicas(active, removed, targets), _ISR_UNWRITTEN)
    done = {tp: target for tp, target in targets.items() if tp not in failures}
    failures |= _unwritten(await active.store.write_topics(topic_znodes(context, done)), done)
    done = {tp: target for tp, target in done.items() if tp not in failures}
    active.commit(ReassignmentsCompleted(done))
    await drop_reassignment_entries(active, lambda tp, target: tp in done and is_entry_for(target, done[tp]))
    batch = active.new_batch()
    batch.add_update_metadata_for_all(done)
    active.send(batch)
    return failures


async def _move_leaders(active: ActiveController, targets: Moves) -> Refusals:
    """Elect where the leader is no target or gone; else tell leader and followers of the shorter list (RA-18)."""
    context = active.context
    staying = [tp for tp, target in targets.items() if keeps_leader(context, tp, target.replicas)]
    kept = set(staying)
    others = [tp for tp in targets if tp not in kept]
    elections = await move_partitions(active, others, PartitionState.ONLINE, Reassign(), targets)
    raised, failures = await _raise_leader_epochs(active, staying)
    batch = active.new_batch(targets)
    for tp, leadership in raised.items():
        batch.add_leader_and_isr(targets[tp].replicas, tp, leadership, targets[tp], is_new=False)
    active.send(batch)
    # Where nobody can be elected the move is completed all the same (RA-26), but not where ZooKeeper refused it.
    return failures | {
        tp: RefusedMove(outcome.code, outcome.reason)
        for tp, outcome in elections.items()
        if isinstance(outcome, ElectionFailure) and outcome.code is not ErrorCode.NONE
    }


def _staying(assignment: ReplicaAssignment) -> list[BrokerId]:
    return [b for b in assignment.target if b not in assignment.adding]


def _deleted(context: ControllerContext, tp: TopicPartition, replicas: Sequence[BrokerId]) -> list[BrokerId]:
    """Those that were removed by an earlier attempt to complete the move, whose end ZooKeeper refused."""
    return [b for b in replicas if context.replica_state(b, tp) is ReplicaState.NON_EXISTENT]


# What the phases share


async def _raise_leader_epochs(
    active: ActiveController, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, LeaderAndIsr], Refusals]:
    """Write the next leader epoch of each partition, in rounds until no version has moved on (RA-14)."""

    async def decide(current: Current) -> EpochRaisePlan:
        return plan_epoch_raises(active.context, current)

    def apply(written: Leaderships) -> None:
        active.commit(LeadershipsWritten(written, "another list of replicas"))

    raised, failures = await write_in_rounds(active, partitions, decide, apply)
    return raised, {tp: RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, failure.reason) for tp, failure in failures.items()}


async def _read_states(
    active: ActiveController, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, LeaderAndIsr]:
    """The ISRs as ZooKeeper has them; where leaders write them, with a watch on each (RA-12)."""
    return await active.store.read_states(partitions, watch=not active.config.protocol_version.has_alter_partition)


def _unwritten(outcomes: Mapping[str, Outcome], partitions: Iterable[TopicPartition]) -> Refusals:
    return {
        tp: RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, f"the topic node cannot be written: {outcomes[tp.topic]}")
        for tp in partitions
        if not isinstance(outcomes[tp.topic], Written)
    }


def _by_partition(replicas: Replicas) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    found: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for broker in sorted(replicas):
        for tp in replicas[broker]:
            found[tp] = (*found.get(tp, ()), broker)
    return found
