"""AlterPartition: ISR changes proposed by leaders. Source: Kafka KafkaController.processAlterPartition; KIP-497."""

import structlog

from cluster.aio.off_loop import off_loop
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionRequest, AlterPartitionResponse, AlterPartitionResult
from controller.active_controller import ActiveController
from controller.changes import LeadershipsWritten
from controller.context.controller_context import ControllerContext
from controller.decisions.partitions.isr_change import (
    AcceptedProposal,
    plan_isr_changes,
    refusal,
    refuse_alter_partition,
    success,
)
from controller.fenced_writes import Conflict, Outcome, Written
from controller.handlers.brokers.damaged_replicas import forget_healed
from controller.handlers.reassignment.engine import complete_reassignments
from controller.handlers.topics.topic_ids import consider_claim
from state_log.reasons import ASKED_BY_BROKER

_log = structlog.stdlib.get_logger()


async def alter_partition(active: ActiveController, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Validate each proposal, write the accepted ones in one batch, send the state of all requested partitions (IS-5 to
    IS-16).

    Raises ControllerMovedError when the write is fenced; then no proposal was accepted.
    """
    code = refuse_alter_partition(active.context, request)
    if code is not ErrorCode.NONE:
        _log.info(
            "AlterPartition refused", broker=request.broker_id, broker_epoch=request.broker_epoch, error=code.name
        )
        return AlterPartitionResponse(code)
    plan = await off_loop(plan_isr_changes, active.context, request)
    for item in request.partitions if active.lost_topic_ids.topics else ():
        consider_claim(active, request.broker_id, item)
    # If a partition is proposed twice, the second proposal is validated against the result of the first.
    proposals = {p.topic_partition: p for p in reversed(plan.accepted)}
    outcomes = await active.store.write_states({tp: proposals[tp].leadership for tp in proposals})
    written = {tp: proposals[tp].leadership for tp, outcome in outcomes.items() if isinstance(outcome, Written)}
    active.commit(LeadershipsWritten(written, f"{ASKED_BY_BROKER}{request.broker_id}", request.broker_id))
    forget_healed(active, written)
    batch = active.new_batch()
    batch.add_update_metadata_for_all(plan.partitions)
    active.send(batch)
    results = list(plan.results)
    for proposal in plan.accepted:
        results[proposal.position] = _result(request, proposal, proposals, outcomes)
    answered = tuple(result for result in results if result is not None)
    return AlterPartitionResponse(ErrorCode.NONE, answered, active.request_cause if written else None)


async def complete_moves(active: ActiveController, response: AlterPartitionResponse) -> None:
    """Complete the moves whose replicas are all in sync by the ISRs that were accepted (IS-17)."""
    await complete_reassignments(active, _changed_partitions(active.context, response))


def _changed_partitions(context: ControllerContext, response: AlterPartitionResponse) -> list[TopicPartition]:
    """Partitions whose ISR now equals the proposed one, whether it was written or was equal before."""
    found: list[TopicPartition] = []
    for item in response.partitions:
        topic = item.topic_name if item.topic_id is None else context.topics.names_by_id.get(item.topic_id)
        if item.error_code is ErrorCode.NONE and topic is not None:
            found.append(TopicPartition(topic, item.partition_index))
    return found


def _result(
    request: AlterPartitionRequest,
    proposal: AcceptedProposal,
    written: dict[TopicPartition, AcceptedProposal],
    outcomes: dict[TopicPartition, Outcome],
) -> AlterPartitionResult:
    item = request.partitions[proposal.position]
    if written[proposal.topic_partition] is not proposal:
        return refusal(item, ErrorCode.INVALID_UPDATE_VERSION)
    match outcomes[proposal.topic_partition]:
        case Written():
            return success(item, proposal.leadership)
        case Conflict():
            return refusal(item, ErrorCode.INVALID_UPDATE_VERSION)
        case _:
            return refusal(item, ErrorCode.UNKNOWN_SERVER_ERROR)
