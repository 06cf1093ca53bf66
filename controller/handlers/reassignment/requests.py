"""Reassignments requested through ZooKeeper and the API, and those resumed after a failover.

Source: Kafka KafkaController.processZkPartitionReassignment, processApiPartitionReassignment,
processListPartitionReassignments; KIP-455.
"""

from collections.abc import Callable
from typing import Final

import structlog

from cluster.broker import BrokerId
from cluster.errors import ErrorCode, MalformedZnodeError
from cluster.partition import ReplicaAssignment, TopicPartition
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
from cluster.state_machines import ReplicaState
from cluster.znodes.paths import REASSIGN_PARTITIONS
from controller.active_controller import ActiveController
from controller.changes import ReplicaStatesDerived
from controller.context import ControllerContext
from controller.decisions.reassignment.phases import (
    RefusedMove,
    is_entry_for,
    plan_submission,
    plan_znode_submission,
    refuse_trigger,
    stray_replicas,
)
from controller.decisions.reassignment.progress import describe_reassignment, list_reassignments
from controller.decisions.replicas_of_call import check_replicas_of_call
from controller.handlers.reassignment.engine import Moves, Refusals, reassign, stop_removed_replicas
from controller.handlers.reassignment.reassignment_znode import drop_reassignment_entries

_OLDER_REQUEST: Final = RefusedMove(
    ErrorCode.UNKNOWN_SERVER_ERROR, "An older request in /admin/reassign_partitions cannot be removed."
)
_log = structlog.stdlib.get_logger()


async def zk_partition_reassignment(
    active: ActiveController, is_wanted: Callable[[TopicPartition, tuple[BrokerId, ...]], bool] | None = None
) -> set[TopicPartition]:
    """Process the requests in `/admin/reassign_partitions`, or those of them that are wanted, and arm its watch
    (RA-30, RA-32).

    Returns the partitions now being reassigned. Refused entries are removed; the others stay until they complete.
    """
    try:
        found = await active.admin_requests.read_reassignments(watch=True)
    except MalformedZnodeError as error:
        _log.error("Reassignment request is malformed; it stays until it is removed", error=str(error))
        return set()
    if found is None:
        return set()
    moves: dict[TopicPartition, ReplicaAssignment] = {}
    failures: Refusals = {}
    for tp, target in found.targets.items():
        if is_wanted is None or is_wanted(tp, target):
            _sort(tp, plan_znode_submission(active.context, tp, target), moves, failures)
    failures |= await _trigger(active, moves)
    if failures:
        _log.warning("Requested reassignments refused", partitions={str(tp): r.message for tp, r in failures.items()})
        await drop_reassignment_entries(active, lambda tp, _target: tp in failures)
    return found.targets.keys() - failures.keys()


async def alter_partition_reassignments(
    active: ActiveController, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Start, replace or cancel reassignments; NONE means recorded, not complete (RA-4).

    If a partition is listed more than once, the last entry counts. Raises ApiError if the call would place too many
    replicas; a cancellation counts as one.
    """
    context = active.context
    targets = {TopicPartition(t.name, p.partition_index): p.replicas for t in request.topics for p in t.partitions}
    check_replicas_of_call(
        "topics.partitions.replicas", [1 if target is None else len(target) for target in targets.values()]
    )
    moves: dict[TopicPartition, ReplicaAssignment] = {}
    failures: Refusals = {}
    for tp, target in targets.items():
        _sort(tp, plan_submission(context, tp, target), moves, failures)
    if moves:
        # The latest request takes precedence, whichever way it was made (RA-2). One that cannot be removed would come
        # back, so the new one is refused.
        for tp in await drop_reassignment_entries(active, lambda tp, _target: tp in moves):
            failures[tp] = _OLDER_REQUEST
            del moves[tp]
    failures |= await _trigger(active, moves)
    return AlterPartitionReassignmentsResponse(_answers(request, failures))


async def resume_reassignments(active: ActiveController) -> None:
    """Resume the reassignments of the previous controller: first `/admin/reassign_partitions`, then those recorded in
    the topic znodes (FO-12).
    """
    context = active.context
    await _stop_strays(active)
    resumed = await zk_partition_reassignment(active)
    # A copy: completed reassignments leave the set during the loop (D-19).
    rest = sorted(context.partitions_being_reassigned - resumed)
    await reassign(active, {tp: context.assignment(tp) for tp in rest})


async def resume_stopped_reassignments(active: ActiveController) -> None:
    """Resume what stopped at a write refused by ZooKeeper: removal of unassigned replicas, and reassignments."""
    context = active.context
    stopped, active.reassignments_to_resume = active.reassignments_to_resume, set()
    await _stop_strays(active)
    if REASSIGN_PARTITIONS in active.admin_requests.unresolved:
        # First what is reached or under way, which must not begin anew and cost leader epochs.
        await drop_reassignment_entries(active, lambda tp, target: is_entry_for(target, context.assignment(tp)))
        await zk_partition_reassignment(active, lambda tp, target: context.assignment(tp).target != target)
    rest = sorted(stopped & context.partitions_being_reassigned)
    await reassign(active, {tp: context.assignment(tp) for tp in rest})


async def list_partition_reassignments(
    active: ActiveController, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    context = active.context
    if request.topics is None:
        return ListPartitionReassignmentsResponse(list_reassignments(context, context.partitions_being_reassigned))
    asked = {TopicPartition(topic.name, p) for topic in request.topics for p in topic.partition_indexes}
    return ListPartitionReassignmentsResponse(list_reassignments(context, asked))


async def describe_reassignments(
    active: ActiveController, request: DescribeReassignmentsRequest
) -> DescribeReassignmentsResponse:
    context = active.context
    asked = None if request.topics is None else set(request.topics)
    ongoing = sorted(tp for tp in context.partitions_being_reassigned if asked is None or tp.topic in asked)
    return DescribeReassignmentsResponse(tuple(describe_reassignment(context, tp) for tp in ongoing))


async def _trigger(active: ActiveController, moves: Moves) -> Refusals:
    """Start the reassignments that are possible; returns the failures (RA-3)."""
    failures: Refusals = {}
    possible = _refuse_impossible(active.context, moves, failures)
    return failures | await reassign(active, possible)


def _refuse_impossible(context: ControllerContext, moves: Moves, failures: Refusals) -> Moves:
    """The reassignments that can start; the refused ones are added to `failures`."""
    refusals = {
        tp: refusal for tp, wanted in moves.items() if (refusal := refuse_trigger(context, tp, wanted)) is not None
    }
    failures |= refusals
    return {tp: assignment for tp, assignment in moves.items() if tp not in refusals}


def _sort(
    tp: TopicPartition,
    result: ReplicaAssignment | RefusedMove,
    moves: dict[TopicPartition, ReplicaAssignment],
    failures: Refusals,
) -> None:
    if isinstance(result, RefusedMove):
        failures[tp] = result
    else:
        moves[tp] = result


def _answers(request: AlterPartitionReassignmentsRequest, failures: Refusals) -> tuple[ReassignableTopicResponse, ...]:
    def answer(tp: TopicPartition) -> ReassignablePartitionResponse:
        refusal = failures.get(tp)
        if refusal is None:
            return ReassignablePartitionResponse(tp.partition, ErrorCode.NONE)
        return ReassignablePartitionResponse(tp.partition, refusal.code, refusal.message)

    return tuple(
        ReassignableTopicResponse(
            topic.name, tuple(answer(TopicPartition(topic.name, p.partition_index)) for p in topic.partitions)
        )
        for topic in request.topics
    )


async def _stop_strays(active: ActiveController) -> None:
    """Finish cancellations that were recorded but not carried out: remove unassigned replicas from ISRs."""
    context = active.context
    strays = stray_replicas(context)
    if not strays:
        return
    _log.warning("Found unassigned replicas in ISRs", partitions={b: len(tps) for b, tps in strays.items()})
    for broker, partitions in strays.items():
        state = ReplicaState.ONLINE if broker in context.live_broker_ids else ReplicaState.OFFLINE
        active.commit(ReplicaStatesDerived(broker, tuple(partitions), state))
    await stop_removed_replicas(active, strays)
    concerned = sorted({tp for partitions in strays.values() for tp in partitions})
    await reassign(active, {tp: context.assignment(tp) for tp in concerned})
