"""RecoverCluster and its dry run: decides from what every broker answered (`questions`), writes, and resigns.

Agents obey only the next controller, whose epoch is above all that they know. If a write is refused, this controller
steps down as well, because its memory is of the cluster before; running the recovery again does what is left.
"""

import structlog

from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode, MalformedZnodeError
from cluster.model.partition import TopicPartition
from cluster.model.printable import counted
from cluster.requests.recovery import PlanClusterRecoveryResponse, RecoverClusterResponse
from controller.active_controller import ActiveController, RecoveryInterruptedError
from controller.changes import LeadershipsWritten, ReassignmentsWritten
from controller.decisions.recovery.descriptions import described_recovery
from controller.decisions.recovery.plan import RecoveryPlan, RestoredCluster, TopicRecovery, plan_recovery
from controller.decisions.recovery.producer_ids import block_above
from controller.handlers.recovery.questions import AskedBrokers, answers_of, check_unchanged
from state_log.reasons import RECOVERED

_NAMED = 3
_log = structlog.stdlib.get_logger()


async def plan_cluster_recovery(active: ActiveController, asked: AskedBrokers) -> PlanClusterRecoveryResponse:
    """Decide, without writing."""
    restored, plan = await _plan(active, asked)
    return PlanClusterRecoveryResponse(described_recovery(restored, plan))


async def recover_cluster(active: ActiveController, asked: AskedBrokers) -> RecoverClusterResponse:
    """Carry out the recovery and resign.

    Raises ApiError if it is refused, ELIGIBLE_LEADERS_NOT_AVAILABLE where accepting loss would help and
    POLICY_VIOLATION where not; RecoveryInterruptedError if a write was refused.
    """
    restored, plan = await _plan(active, asked)
    if plan.obstacles:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"nothing was written: {_first(plan.obstacles)}")
    if plan.refusals:
        message = f"records may be lost: {_first(plan.refusals)}; start those brokers, or accept it"
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    # Now, and not before it is decided: brokers then obey the next controller above the epochs that they named.
    await answers_of(active, asked.answering, recovers=True)
    failed = await active.recovery.write_topics(plan.topics)
    await _commit(active, plan.topics)
    if failed:
        raise RecoveryInterruptedError(f"{counted(len(failed), 'topic')} not written, {failed[0]} first: run it again")
    await _raise_producer_ids(active, plan)
    if not await active.recovery.resign_above(plan.controller_epoch):
        raise RecoveryInterruptedError("the controller epoch was not raised: run it again")
    _log.warning(
        "Cluster recovered from its brokers; resigning",
        topics=len(plan.topics),
        partitions=sum(len(topic.partitions) for topic in plan.topics),
        next_epoch_above=plan.controller_epoch,
    )
    return RecoverClusterResponse(described_recovery(restored, plan))


def _first(reasons: tuple[str, ...]) -> str:
    more = len(reasons) - _NAMED
    return f"{'; '.join(reasons[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


async def _plan(active: ActiveController, asked: AskedBrokers) -> tuple[RestoredCluster, RecoveryPlan]:
    await check_unchanged(active, asked)
    restored = await _read(active, asked.silent)
    return restored, plan_recovery(restored, asked.answers, accept_loss=asked.request.accept_loss)


async def _read(active: ActiveController, silent: tuple[BrokerId, ...]) -> RestoredCluster:
    """Read ZooKeeper, not the context: what could not be loaded must not be taken for absent."""
    listed = await active.store.list_topics()
    topics = {name: found for name, (found, _) in (await active.store.read_topics_to_change(listed)).items()}
    partitions = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
    last_producer_id, malformed_producer_ids = -1, ""
    try:
        found = await active.unfenced.read_producer_id_block()
    except MalformedZnodeError as error:
        malformed_producer_ids = error.why
    else:
        last_producer_id = -1 if found is None or found[0] is None else found[0].end
    return RestoredCluster(
        topics=topics,
        leaderships=await active.store.read_states(partitions),
        controller_epoch=active.epoch,
        last_producer_id=last_producer_id,
        malformed_producer_ids=malformed_producer_ids,
        malformed=frozenset(listed) - topics.keys(),
        leaving=frozenset(await active.store.list_deletion_markers()),
        silent=silent,
        unreadable=frozenset(active.store.unreadable_brokers).intersection(silent),
    )


async def _commit(active: ActiveController, topics: tuple[TopicRecovery, ...]) -> None:
    """Take over, from ZooKeeper, what was written of the topics that this controller knows."""
    known = [t for t in topics if active.context.topics.ids.get(t.topic) == t.after.topic_id is not None]
    partitions = {p.topic_partition: p for t in known for p in t.partitions}
    states = await active.store.read_states(list(partitions))
    written = {tp: state for tp, state in states.items() if state.leader_epoch == partitions[tp].after.leader_epoch}
    planned = {tp: partitions[tp] for tp in written}
    moved = {tp: p.assignment for tp, p in planned.items() if p.assignment != p.old_assignment}
    if moved:
        active.commit(ReassignmentsWritten(moved))
    active.commit(LeadershipsWritten(written, RECOVERED))


async def _raise_producer_ids(active: ActiveController, plan: RecoveryPlan) -> None:
    """Allocate no producer id again that a broker has seen."""
    found = await active.unfenced.read_producer_id_block()
    if found is None:
        return
    last, version = found
    block = block_above(last, plan.last_producer_id, min(active.context.brokers.registered, default=BrokerId(0)))
    if block is not None and not await active.recovery.write_producer_ids(block, version):
        raise RecoveryInterruptedError("the producer id block was not written: run it again")
