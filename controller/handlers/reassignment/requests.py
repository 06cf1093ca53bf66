"""Who asks for moves, and who asks about them: ZooKeeper, the API, and a failover that finds some under way.

Source: Kafka KafkaController.processZkPartitionReassignment, processApiPartitionReassignment,
processListPartitionReassignments; KIP-455.
"""

import structlog

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
from controller.active_controller import ActiveController
from controller.changes import ReplicaStatesDerived
from controller.context import ControllerContext
from controller.decisions.reassignment.phases import (
    RefusedMove,
    plan_submission,
    plan_znode_submission,
    refuse_trigger,
    stray_replicas,
)
from controller.decisions.reassignment.progress import describe_reassignment, list_reassignments
from controller.handlers.reassignment.engine import Moves, Refusals, reassign, stop_removed_replicas
from controller.handlers.reassignment.reassignment_znode import drop_reassignment_entries

_log = structlog.stdlib.get_logger()


async def zk_partition_reassignment(active: ActiveController) -> set[TopicPartition]:
    """Take the requests in `/admin/reassign_partitions`, with a watch for the next node (RA-30, RA-32).

    Which partitions are on their way now. Refused entries leave the node; the others stay until they are done.
    """
    try:
        found = await active.admin_requests.read_reassignments(watch=True)
    except MalformedZnodeError as error:
        _log.error("Requested reassignments are unreadable and stay until somebody removes them", error=str(error))
        return set()
    if found is None:
        return set()
    moves: dict[TopicPartition, ReplicaAssignment] = {}
    failures: Refusals = {}
    for tp, target in found.targets.items():
        _sort(tp, plan_znode_submission(active.context, tp, target), moves, failures)
    failures |= await _trigger(active, moves)
    if failures:
        _log.warning("Requested reassignments fail", partitions={str(tp): r.message for tp, r in failures.items()})
        await drop_reassignment_entries(active, lambda tp, _target: tp in failures)
    return found.targets.keys() - failures.keys()


async def alter_partition_reassignments(
    active: ActiveController, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Start, replace or cancel moves; NONE means recorded, not done (RA-4).

    Of several targets for one partition the last one counts.
    """
    context = active.context
    targets = {TopicPartition(t.name, p.partition_index): p.replicas for t in request.topics for p in t.partitions}
    moves: dict[TopicPartition, ReplicaAssignment] = {}
    failures: Refusals = {}
    for tp, target in targets.items():
        _sort(tp, plan_submission(context, tp, target), moves, failures)
    if moves:
        # The newest instruction wins, whichever way it came (RA-2).
        await drop_reassignment_entries(active, lambda tp, _target: tp in moves)
    failures |= await _trigger(active, moves)
    return AlterPartitionReassignmentsResponse(_answers(request, failures))


async def resume_reassignments(active: ActiveController) -> None:
    """Resume the reassignments of the previous controller: first `/admin/reassign_partitions`, then those recorded in
    the topic znodes (FO-12).
    """
    context = active.context
    await _stop_strays(active)
    resumed = await zk_partition_reassignment(active)
    # A copy: what is complete leaves the set on the way (D-19).
    rest = sorted(context.partitions_being_reassigned - resumed)
    await reassign(active, {tp: context.assignment(tp) for tp in rest})


async def resume_stopped_reassignments(active: ActiveController) -> None:
    """Carry on where ZooKeeper refused a write: with strays that are to go, and with the moves that it stopped."""
    context = active.context
    stopped, active.reassignments_to_resume = active.reassignments_to_resume, set()
    await _stop_strays(active)
    await zk_partition_reassignment(active)
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
    """Begin the moves that are possible; why the others are not (RA-3)."""
    failures: Refusals = {}
    possible = _refuse_impossible(active.context, moves, failures)
    return failures | await reassign(active, possible)


def _refuse_impossible(context: ControllerContext, moves: Moves, failures: Refusals) -> Moves:
    """The moves that may begin; the others go into `failures`."""
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
    """Finish cancellations that were recorded and not carried out: whoever is in sync without being assigned goes."""
    context = active.context
    strays = stray_replicas(context)
    if not strays:
        return
    _log.warning("Replicas are in sync without being assigned", partitions={b: len(tps) for b, tps in strays.items()})
    for broker, partitions in strays.items():
        state = ReplicaState.ONLINE if broker in context.live_broker_ids else ReplicaState.OFFLINE
        active.commit(ReplicaStatesDerived(broker, tuple(partitions), state))
    await stop_removed_replicas(active, strays)
    concerned = sorted({tp for partitions in strays.values() for tp in partitions})
    await reassign(active, {tp: context.assignment(tp) for tp in concerned})
