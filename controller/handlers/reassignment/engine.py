"""Partition reassignment: starts, replaces, cancels, resumes and completes reassignments.

All partitions of a call go through each step together, so ten thousand of them take a few transactions per step.
Source: Kafka KafkaController.onPartitionReassignment; KIP-455.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from cluster.model.broker import BrokerId
from cluster.model.errors import ControllerMovedError, ErrorCode, SessionExpiredError, ZooKeeperError
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller import changes
from controller.active_controller import ActiveController
from controller.context.controller_context import ControllerContext
from controller.decisions.partitions.leader_election import ElectionFailure, Reassign
from controller.decisions.reassignment.phases import (
    EpochRaisePlan,
    RefusedMove,
    is_complete,
    is_entry_for,
    keeps_leader,
    plan_epoch_raises,
    reassigned_on,
    replicas_by_broker,
    topic_znodes,
)
from controller.handlers.partitions.partition_transitions import move_partitions
from controller.handlers.partitions.replica_transitions import Replicas, move_replicas
from controller.handlers.partitions.state_writes import Current, Leaderships, write_in_rounds
from controller.handlers.reassignment.reassignment_znode import drop_reassignment_entries
from controller.handlers.reassignment.recording import Moves, Refusals, record_moves, stop_removed_replicas, unwritten
from state_log.reasons import OTHER_REPLICAS

_log = structlog.stdlib.get_logger()

_ISR_UNWRITTEN: Final = RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, "a removed replica cannot be taken out of the ISR")


async def reassign(active: ActiveController, moves: Moves) -> Refusals:
    """Record reassignments in ZooKeeper, then start or complete each; returns the failed ones with the reason (RA-3).

    ControllerMovedError and SessionExpiredError are raised; any other ZooKeeper error fails all partitions.
    """
    if not moves:
        return {}
    unneeded: Replicas = {}
    try:
        failures, unneeded = await record_moves(active, moves)
        failures |= await _start_or_complete(active, {tp: a for tp, a in moves.items() if tp not in failures})
        for tp, refusal in failures.items():
            _log.error("Partition reassignment failed", partition=str(tp), reason=refusal.message)
    except (ControllerMovedError, SessionExpiredError):
        raise
    except ZooKeeperError as error:
        _log.error("Partition reassignments failed", partitions=len(moves), error=str(error))
        active.resume_later()
        failures = dict.fromkeys(moves, RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
    active.reassignments_to_resume |= failures.keys()
    # Now the leader epoch is new to their brokers; where it could not be raised they are told all the same.
    await stop_removed_replicas(active, unneeded)
    return failures


async def complete_reassignments(active: ActiveController, partitions: Iterable[TopicPartition]) -> None:
    """Complete the reassignments whose target replicas are all in sync; called after ISR changes (RA-51, RA-31)."""
    context = active.context
    ongoing = [tp for tp in dict.fromkeys(partitions) if tp in context.topics.being_reassigned]
    if active.config.protocol_version.has_alter_partition:
        # The context has every ISR, so it tells which partitions need no read of ZooKeeper.
        known = context.leaderships.known
        ongoing = [tp for tp in ongoing if is_complete(context.topics.assignment(tp), known.get(tp))]
    if not ongoing:
        return
    states = await _read_states(active, ongoing)
    complete = [tp for tp in ongoing if is_complete(context.topics.assignment(tp), states.get(tp))]
    await reassign(active, {tp: context.topics.assignment(tp) for tp in complete})


async def resume_reassignments_on(active: ActiveController, brokers: Iterable[BrokerId]) -> None:
    """Send started brokers the reassignments of which they are a target (BK-15)."""
    context = active.context
    if context.topics.being_reassigned:
        concerned = reassigned_on(context, brokers)
        await reassign(active, {tp: context.topics.assignment(tp) for tp in concerned})


async def _start_or_complete(active: ActiveController, recorded: Moves) -> Refusals:
    active.commit(changes.ReassignmentsStarted(tuple(recorded)))
    # One step: where leaders write the ISR, the read also arms a watch, so no change can be missed.
    states = await _read_states(active, list(recorded))
    complete = {tp: a for tp, a in recorded.items() if is_complete(a, states.get(tp))}
    waiting = {tp: a for tp, a in recorded.items() if tp not in complete}
    failures: Refusals = {}
    if waiting:
        failures |= await _start(active, waiting)
    if complete:
        failures |= await _complete(active, complete)
    _log.info("Partition reassignments processed", started=len(waiting), completed=len(complete), failed=len(failures))
    return failures


# Phase A


async def _start(active: ActiveController, moves: Moves) -> Refusals:
    """Send the extended replica list under a new leader epoch; the added replicas start to fetch."""
    raised, failures = await _raise_leader_epochs(active, list(moves))
    batch = active.new_batch()
    for tp, leadership in raised.items():
        assignment = moves[tp]
        batch.add_leader_and_isr(assignment.original, tp, leadership, assignment, is_new=False)
        # An added replica may be created in any online directory; an existing one must not be created again beside an
        # offline directory (RA-13).
        batch.add_leader_and_isr(assignment.adding, tp, leadership, assignment, is_new=True)
    active.send(batch)
    # Only on the first start: replicas of a resumed reassignment are in other states (RA-15). Without a leader there is
    # nothing to send, but the replicas start all the same, as those of a new topic: the first ISR includes them.
    context = active.context
    begun = [tp for tp in moves if tp in raised or tp not in context.leaderships.known]
    fresh = replicas_by_broker(
        (tp, [b for b in moves[tp].adding if context.replicas.state(b, tp) is ReplicaState.NON_EXISTENT])
        for tp in begun
    )
    await move_replicas(active, fresh, ReplicaState.NEW)
    return failures


# Phase B


async def _complete(active: ActiveController, moves: Moves) -> Refusals:
    """Shrink to the target replicas: the leader first, then the removed replicas, the topic znode last.

    The topic znode is the only durable record of what has to be removed; if the controller dies before it is written,
    the next one can run this again (RA-25).
    """
    context = active.context
    # A replica that stays after all, although an attempt to remove it went as far as its deletion, begins again.
    deleted = replicas_by_broker((tp, _deleted(context, tp, _staying(assignment))) for tp, assignment in moves.items())
    await move_replicas(active, deleted, ReplicaState.NEW)
    adding = replicas_by_broker((tp, assignment.adding) for tp, assignment in moves.items())
    for arrived in (deleted, adding):
        await move_replicas(active, arrived, ReplicaState.ONLINE)
    # Brokers get the target lists before the topic znodes hold them; the context keeps what the znodes hold.
    targets = {tp: ReplicaAssignment(assignment.target) for tp, assignment in moves.items()}
    failures = await _move_leaders(active, targets)
    removed = replicas_by_broker(
        (tp, [b for b in a.removing if b not in _deleted(context, tp, a.removing)])
        for tp, a in moves.items()
        if tp not in failures
    )
    failures |= dict.fromkeys(await stop_removed_replicas(active, removed, targets), _ISR_UNWRITTEN)
    done = {tp: target for tp, target in targets.items() if tp not in failures}
    failures |= unwritten(await active.store.write_topics(topic_znodes(context, done)), done)
    done = {tp: target for tp, target in done.items() if tp not in failures}
    active.commit(changes.ReassignmentsCompleted(done))
    await drop_reassignment_entries(active, lambda tp, target: tp in done and is_entry_for(target, done[tp]))
    batch = active.new_batch()
    batch.add_update_metadata_for_all(done)
    active.send(batch)
    return failures


async def _move_leaders(active: ActiveController, targets: Moves) -> Refusals:
    """Elect a leader where the present one is offline or not a target; else send the target list (RA-18)."""
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
    # Without an electable replica the reassignment completes all the same (RA-26), but not if ZooKeeper refused it.
    return failures | {
        tp: RefusedMove(outcome.code, outcome.reason)
        for tp, outcome in elections.items()
        if isinstance(outcome, ElectionFailure) and outcome.code is not ErrorCode.NONE
    }


def _staying(assignment: ReplicaAssignment) -> list[BrokerId]:
    return [b for b in assignment.target if b not in assignment.adding]


def _deleted(context: ControllerContext, tp: TopicPartition, replicas: Sequence[BrokerId]) -> list[BrokerId]:
    """The replicas that were removed by an earlier attempt to complete the move, whose end ZooKeeper refused."""
    return [b for b in replicas if context.replicas.state(b, tp) is ReplicaState.NON_EXISTENT]


# Shared by the phases


async def _raise_leader_epochs(
    active: ActiveController, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, LeaderAndIsr], Refusals]:
    """Write the next leader epoch of each partition, retrying where the znode has changed (RA-14)."""

    async def decide(current: Current) -> EpochRaisePlan:
        return plan_epoch_raises(active.context, current)

    def apply(written: Leaderships) -> None:
        active.commit(changes.LeadershipsWritten(written, OTHER_REPLICAS))

    raised, failures = await write_in_rounds(active, partitions, decide, apply)
    return raised, {tp: RefusedMove(ErrorCode.UNKNOWN_SERVER_ERROR, failure.reason) for tp, failure in failures.items()}


async def _read_states(
    active: ActiveController, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, LeaderAndIsr]:
    """Read leaderships and ISRs from ZooKeeper; where leaders write them, also arm a watch on each (RA-12)."""
    return await active.store.read_states(partitions, watch=not active.config.protocol_version.has_alter_partition)
