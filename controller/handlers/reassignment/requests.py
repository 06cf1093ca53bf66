"""Reassignments requested through ZooKeeper and the API, and those resumed after a failover.

Source: Kafka KafkaController.processZkPartitionReassignment, processApiPartitionReassignment,
processListPartitionReassignments; KIP-455.
"""

from typing import Final

import structlog

from cluster.aio.slices import in_slices
from cluster.model.errors import ErrorCode, MalformedZnodeError
from cluster.model.partition import ReplicaAssignment, TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeReassignmentsRequest,
    DescribeReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from controller.active_controller import ActiveController
from controller.changes import ReplicasMoved
from controller.decisions.reassignment.phases import (
    RefusedMove,
    plan_submission,
    refuse_trigger,
    stray_replicas,
)
from controller.decisions.reassignment.progress import describe_reassignment, list_reassignments
from controller.decisions.reassignment.requested_moves import plan_requested_moves
from controller.decisions.replicas_of_call import check_replicas_of_call
from controller.handlers.reassignment.engine import reassign
from controller.handlers.reassignment.reassignment_znode import drop_reassignment_entries
from controller.handlers.reassignment.recording import Moves, Refusals, elect_staying, stop_removed_replicas

_OLDER_REQUEST: Final = RefusedMove(
    ErrorCode.UNKNOWN_SERVER_ERROR, "An older request in /admin/reassign_partitions cannot be removed."
)
_NAMED_IN_LOG: Final = 10
_log = structlog.stdlib.get_logger()


async def zk_partition_reassignment(active: ActiveController) -> set[TopicPartition]:
    """Process what is new in `/admin/reassign_partitions`, and arm its watch (RA-30, RA-32, D-95).

    Returns the partitions whose reassignment began. Entries that are refused or in place already are removed, with the
    reason in the log; the others stay until they complete. A move that is no longer listed continues: to remove an
    entry cancels nothing.
    """
    try:
        found = await active.admin_requests.next_reassignments()
    except MalformedZnodeError as error:
        _log.error("Reassignment request is malformed; it stays until it is removed", error=str(error))
        return set()
    if found is None:
        return set()
    plan = plan_requested_moves(active.context, found.targets, is_new=found.is_new)
    dropped = plan.dropped | await reassign(active, plan.moves)
    if dropped:
        _log_dropped(dropped)
        # Only the entries as they were read: one that was changed meanwhile is another request.
        gone = {tp: found.targets[tp] for tp in dropped}
        await drop_reassignment_entries(active, lambda tp, target: gone.get(tp) == target)
    return plan.moves.keys() - dropped.keys()


async def alter_partition_reassignments(
    active: ActiveController, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Start, replace or cancel reassignments; NONE means recorded, not complete (RA-4).

    If a partition is listed more than once, the last entry counts. Raises ApiError if the call would place too many
    replicas; a cancellation counts as one.
    """
    context = active.context
    listed = ((t, p) for t in request.topics for p in t.partitions)
    targets = {TopicPartition(t.name, p.partition_index): p.replicas async for t, p in in_slices(listed)}
    check_replicas_of_call(
        "topics.partitions.replicas", [1 if target is None else len(target) for target in targets.values()]
    )
    moves: dict[TopicPartition, ReplicaAssignment] = {}
    failures: Refusals = {}
    async for tp, target in in_slices(targets.items()):
        planned = plan_submission(context, tp, target)
        if isinstance(planned, RefusedMove):
            failures[tp] = planned
        else:
            moves[tp] = planned
    if moves:
        # The latest request takes precedence, whichever way it was made (RA-2). One that cannot be removed would come
        # back, so the new one is refused.
        for tp in await drop_reassignment_entries(active, lambda tp, _target: tp in moves):
            failures[tp] = _OLDER_REQUEST
            del moves[tp]
    failures |= await _trigger(active, moves)
    return AlterPartitionReassignmentsResponse(await _answers(request, failures))


async def resume_reassignments(active: ActiveController) -> None:
    """Resume the reassignments of the previous controller: first `/admin/reassign_partitions`, then those recorded in
    the topic znodes (FO-12).
    """
    context = active.context
    await _stop_strays(active)
    begun = await zk_partition_reassignment(active)
    # A copy: completed reassignments leave the set during the loop (D-19).
    rest = sorted(context.topics.being_reassigned - begun)
    await reassign(active, {tp: context.topics.assignment(tp) for tp in rest})


async def resume_stopped_reassignments(active: ActiveController) -> None:
    """Resume what stopped at a write refused by ZooKeeper: removal of unassigned replicas, and reassignments."""
    context = active.context
    stopped, active.reassignments_to_resume = active.reassignments_to_resume, set()
    await _stop_strays(active)
    await zk_partition_reassignment(active)
    rest = sorted(stopped & context.topics.being_reassigned)
    await reassign(active, {tp: context.topics.assignment(tp) for tp in rest})


async def list_partition_reassignments(
    active: ActiveController, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the ongoing reassignments of the named partitions, or all."""
    context = active.context
    if request.topics is None:
        return ListPartitionReassignmentsResponse(list_reassignments(context, context.topics.being_reassigned))
    named = (TopicPartition(topic.name, p) for topic in request.topics for p in topic.partition_indexes)
    asked = {tp async for tp in in_slices(named)}
    return ListPartitionReassignmentsResponse(list_reassignments(context, asked))


async def describe_reassignments(
    active: ActiveController, request: DescribeReassignmentsRequest
) -> DescribeReassignmentsResponse:
    """Describe the progress of ongoing reassignments, and why one is stuck."""
    context = active.context
    asked = None if request.topics is None else set(request.topics)
    ongoing = sorted(tp for tp in context.topics.being_reassigned if asked is None or tp.topic in asked)
    return DescribeReassignmentsResponse(tuple(describe_reassignment(context, tp) for tp in ongoing))


async def _trigger(active: ActiveController, moves: Moves) -> Refusals:
    """Start the reassignments that are possible; returns the failures (RA-3)."""
    context = active.context
    refusals = {
        tp: refusal for tp, wanted in moves.items() if (refusal := refuse_trigger(context, tp, wanted)) is not None
    }
    failures = await reassign(active, {tp: wanted for tp, wanted in moves.items() if tp not in refusals})
    return refusals | {
        tp: _going_on(refusal) if context.topics.assignment(tp) == moves[tp] else refusal
        for tp, refusal in failures.items()
    }


def _going_on(refusal: RefusedMove) -> RefusedMove:
    """Say of a reassignment that is recorded that it is carried out later (D-28), although Kafka answers an error."""
    return RefusedMove(refusal.code, f"{refusal.message}; the reassignment is recorded, and resumed until it succeeds")


def _log_dropped(dropped: Refusals) -> None:
    """Log one line for each reason, however many entries share it."""
    by_reason: dict[str, list[TopicPartition]] = {}
    for tp, refusal in dropped.items():
        by_reason.setdefault(refusal.message, []).append(tp)
    for reason, partitions in by_reason.items():
        first = ", ".join(map(str, partitions[:_NAMED_IN_LOG]))
        _log.warning("Requested reassignments do not begin", reason=reason, count=len(partitions), first=first)


async def _answers(
    request: AlterPartitionReassignmentsRequest, failures: Refusals
) -> tuple[ReassignableTopicResponse, ...]:
    answers: list[list[ReassignablePartitionResponse]] = [[] for _ in request.topics]
    asked = ((n, TopicPartition(t.name, p.partition_index)) for n, t in enumerate(request.topics) for p in t.partitions)
    async for number, tp in in_slices(asked):
        refusal = failures.get(tp)
        code, message = (ErrorCode.NONE, None) if refusal is None else (refusal.code, refusal.message)
        answers[number].append(ReassignablePartitionResponse(tp.partition, code, message))
    return tuple(
        ReassignableTopicResponse(topic.name, tuple(partitions))
        for topic, partitions in zip(request.topics, answers, strict=True)
    )


async def _stop_strays(active: ActiveController) -> None:
    """Finish cancellations that were recorded but not carried out: remove unassigned replicas from ISRs."""
    context = active.context
    strays = stray_replicas(context)
    if not strays:
        return
    _log.warning("Found unassigned replicas in ISRs", partitions={b: len(tps) for b, tps in strays.items()})
    led = [tp for broker, tps in strays.items() for tp in tps if context.leaderships.known[tp].leader == broker]
    # Those that cannot be led by another replica now are elected when one is back.
    await elect_staying(active, {tp: context.topics.assignment(tp).replicas for tp in led})
    for broker, partitions in strays.items():
        state = ReplicaState.ONLINE if broker in context.brokers.live_ids else ReplicaState.OFFLINE
        unknown = dict.fromkeys(partitions, ReplicaState.NON_EXISTENT)
        active.commit(ReplicasMoved(broker, unknown, state, recorded=False))
    await stop_removed_replicas(active, strays)
    concerned = sorted({tp for partitions in strays.values() for tp in partitions})
    await reassign(active, {tp: context.topics.assignment(tp) for tp in concerned})
