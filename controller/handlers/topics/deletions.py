"""Topic deletion: queues marked topics, deletes their replicas, pauses while that is impossible, removes the znodes.

It waits for no reassignment (D-1), and for a broker that is away no longer than a grace time (`absent_brokers`).

All queued topics go through each step together, so a hundred topics cost as many requests as one. The remaining work
follows from the replica states alone, and ZooKeeper keeps the marker until the end, so the next controller can resume
after a failure at any point. Source: Kafka TopicDeletionManager.
"""

from collections.abc import Collection, Iterable
from typing import Final

import structlog

from cluster.model import bounds
from cluster.model.bounds import shortened
from cluster.model.broker import LEADER_EPOCH_DURING_DELETE, BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.requests.control import StopReplicaRequest, StopReplicaResponse
from controller import changes
from controller.active_controller import ActiveController
from controller.decisions.topics.deletion import (
    deletable_replicas,
    failed_replicas,
    filter_queued,
    next_steps,
    plan_start,
    topics_with_offline_replicas,
)
from controller.events import LeftReplicasResponseReceived, TopicDeletionStopReplicaResponseReceived
from controller.handlers.partitions.partition_transitions import move_partitions
from controller.handlers.partitions.replica_transitions import Replicas, move_replicas, replicas_of
from controller.handlers.reassignment.reassignment_znode import drop_reassignments_of_topics
from controller.handlers.topics.absent_brokers import check_absences_later, give_up_absent, leave_replicas

_NAMES_IN_LOG: Final = 10
_log = structlog.stdlib.get_logger()


async def initialise_deletions(active: ActiveController) -> None:
    """Queue the topics marked for deletion on controller failover; no deletion starts yet (FO-7, FO-8, TD-1)."""
    context = active.context
    listed = await active.store.list_deletion_markers()
    if not active.config.settings.delete_topic_enable:
        await _drop_markers(active, listed)
        return
    marked = await _delete_unacceptable(active, listed)
    # The entries of their reassignments in ZooKeeper are refused and removed when reassignments resume.
    active.commit(changes.DeletionsQueued(tuple(marked), recorded=False))
    give_up_absent(active)
    held = topics_with_offline_replicas(context, context.deletions.queued)
    active.commit(changes.DeletionsIneligible(frozenset(held)))
    if marked:
        _log.info("Found topics marked for deletion", **_some(marked), on_hold=len(held))


async def topic_deletion(active: ActiveController) -> None:
    """Handle topics newly marked for deletion (TD-10 to TD-12)."""
    context = active.context
    listed = await active.store.list_deletion_markers()
    if not active.config.settings.delete_topic_enable:
        await _drop_markers(active, listed)
        return
    marked = await _delete_unacceptable(active, listed)
    await _drop_markers(active, [topic for topic in marked if topic not in context.topics.names])
    new = [topic for topic in marked if topic in context.topics.names and topic not in context.deletions.queued]
    moving = {tp.topic for tp in context.topics.being_reassigned}.intersection(new)
    active.commit(changes.DeletionsQueued(tuple(new)))
    if new:
        _log.info("Topics queued for deletion", **_some(new), reassignments_ended=len(moving))
    if moving:
        await drop_reassignments_of_topics(active, moving)
    await try_deletions(active)


async def resume_deletions(active: ActiveController, topics: Iterable[str]) -> None:
    """Resume deletion of topics that were blocked, after a broker returned or was given up (TD-6).

    Topics that are not queued are ignored.
    """
    queued = active.context.deletions.queued.intersection(topics)
    if queued:
        active.commit(changes.DeletionsEligible(tuple(sorted(queued))))
        await try_deletions(active)


async def resume_deletions_on(active: ActiveController, brokers: Collection[BrokerId]) -> None:
    """Resume deletion of topics that have replicas on brokers that started, or that are given up (BK-16, D-98)."""
    if active.context.deletions.queued:
        await resume_deletions(active, {tp.topic for b in brokers for tp in active.context.topics.partitions_on(b)})


async def absent_brokers_due(active: ActiveController) -> None:
    """Complete the deletions that wait only for brokers that have been away for the grace time (D-98)."""
    active.absences_checked_at = None
    give_up_absent(active)
    await resume_deletions_on(active, active.context.deletions.brokers_given_up)
    check_absences_later(active)


async def deletions_failed(active: ActiveController, replicas: Replicas) -> None:
    """Mark the topics of these replicas ineligible for deletion; their other replicas continue (TD-8)."""
    failed = filter_queued(active.context, replicas)
    if failed:
        await move_replicas(active, deletable_replicas(active.context, failed), ReplicaState.DELETION_INELIGIBLE)
        topics = sorted({tp.topic for partitions in failed.values() for tp in partitions})
        active.commit(changes.DeletionsIneligible(frozenset(topics)))
        _log.info("Topic deletion blocked", **_some(topics), brokers=sorted(failed))
        await try_deletions(active)


def deletion_answer(
    active: ActiveController, broker: BrokerId, request: StopReplicaRequest, response: StopReplicaResponse
) -> TopicDeletionStopReplicaResponseReceived | LeftReplicasResponseReceived | None:
    """The event for a response about topics being deleted, or deleted before; None for others, such as those of
    reassignments (RQ-21). Which it is, the leader epoch of the request says.
    """
    context = active.context
    asked = {
        TopicPartition(s.topic_name, s.partition_index)
        for s in request.partition_states
        if s.delete_partition and s.leader_epoch == LEADER_EPOCH_DURING_DELETE
    }
    results = {
        tp: e.error_code
        for e in response.partition_errors
        if (tp := TopicPartition(e.topic_name, e.partition_index)) in asked
    }
    epoch = request.broker_epoch
    # A broker that still has replicas of an earlier topic is asked for nothing else of that name.
    left = {tp: code for tp, code in results.items() if context.deletions.has_left_replicas(broker, tp.topic)}
    if left:
        return LeftReplicasResponseReceived(broker, epoch, left)
    started = {tp: code for tp, code in results.items() if tp.topic in context.deletions.started}
    if not started:
        return None
    return TopicDeletionStopReplicaResponseReceived(broker, epoch, response.error_code, started)


async def deletion_answered(active: ActiveController, event: TopicDeletionStopReplicaResponseReceived) -> None:
    """Process the result of replica deletion on a broker (TD-20), unless that has started again since."""
    if active.context.brokers.epochs.get(event.broker) != event.broker_epoch:
        return
    refused = event.error_code is not ErrorCode.NONE
    failed = [tp for tp, code in event.results.items() if refused or code is not ErrorCode.NONE]
    deleted = [tp for tp, code in event.results.items() if not refused and code is ErrorCode.NONE]
    if failed:
        _log.warning("Replica deletion failed", broker=event.broker, count=len(failed), first=str(failed[0]))
        await deletions_failed(active, {event.broker: failed})
    if deleted:
        await _complete(active, {event.broker: deleted})


async def _complete(active: ActiveController, replicas: Replicas) -> None:
    """Mark the broker's replicas as deleted, and finish topics without remaining replicas (TD-7)."""
    deleted = filter_queued(active.context, replicas)
    await move_replicas(active, deleted, ReplicaState.DELETION_SUCCESSFUL)
    await try_deletions(active)


async def try_deletions(active: ActiveController) -> None:
    """Advance every queued topic as far as possible (FO-13, TD-5, TD-9)."""
    steps = next_steps(active.context)
    if steps.finish:
        await _finish(active, steps.finish)
    if steps.retry:
        await move_replicas(active, failed_replicas(active.context, steps.retry), ReplicaState.OFFLINE)
    if steps.start and await _start(active, steps.start):
        # No broker answers for those: what they complete is completed now.
        await try_deletions(active)
    check_absences_later(active)


async def _start(active: ActiveController, topics: Collection[str]) -> bool:
    """Remove the topics from the metadata of all brokers, then delete their replicas (TD-13).

    Returns whether replicas count as deleted without an answer (D-98).
    """
    context = active.context
    give_up_absent(active)
    plan = plan_start(context, topics)
    # Through OfflinePartition, and counted as started only afterwards, so the offline partition count rises and falls
    # again.
    await move_partitions(active, plan.partitions, PartitionState.OFFLINE)
    await move_partitions(active, plan.partitions, PartitionState.NON_EXISTENT)
    active.commit(changes.DeletionsStarted(tuple(topics)))
    batch = active.new_batch()
    batch.add_update_metadata_for_all(tp for topic in topics for tp in context.topics.partitions_of(topic))
    active.send(batch)
    for broker, partitions in plan.unborn.items():
        active.commit(
            changes.ReplicasMoved(broker, dict.fromkeys(partitions, ReplicaState.NON_EXISTENT), ReplicaState.NEW)
        )
    await move_replicas(active, plan.dead, ReplicaState.DELETION_INELIGIBLE)
    # Replicas are stopped before any is deleted, so that none fetches from a deleted leader.
    await move_replicas(active, plan.alive, ReplicaState.OFFLINE)
    await move_replicas(active, plan.alive, ReplicaState.DELETION_STARTED)
    active.commit(changes.DeletionsIneligible(frozenset(plan.held)))
    if plan.held:
        _log.info("Topic deletion waits for dead brokers", **_some(plan.held), brokers=sorted(plan.dead))
    return await leave_replicas(active, plan.left)


async def _finish(active: ActiveController, topics: Collection[str]) -> None:
    """Remove topics whose replicas are all deleted from ZooKeeper, then from the context (TD-15)."""
    context = active.context
    gone = await active.store.delete_topics(topics)
    partitions = [tp for topic in gone for tp in context.topics.partitions_of(topic)]
    await move_replicas(active, replicas_of(context, partitions), ReplicaState.NON_EXISTENT)
    active.commit(changes.TopicsRemoved(tuple(gone), deleted=True))
    active.topic_calls.drop(gone)
    await drop_reassignments_of_topics(active, gone)
    _log.info("Topics deleted", **_some(gone))


def _some(topics: Iterable[str]) -> dict[str, object]:
    """Number of topics and the first names, as fields of a log line."""
    names = sorted(topics)
    return {"count": len(names), "first": names[:_NAMES_IN_LOG]}


async def _delete_unacceptable(active: ActiveController, marked: Collection[str]) -> list[str]:
    """Delete the znodes of marked topics whose name no topic can have; returns the others. No broker has replicas."""
    unacceptable = [topic for topic in marked if not bounds.TOPIC_NAME.accepts(topic)]
    if unacceptable:
        _log.warning("Deleting topics with unacceptable names", **_some(map(shortened, unacceptable)))
        await active.store.delete_topics(unacceptable)
    return [topic for topic in marked if bounds.TOPIC_NAME.accepts(topic)]


async def _drop_markers(active: ActiveController, topics: Collection[str]) -> None:
    if topics:
        _log.warning(
            "Removing deletion markers without deleting the topics",
            **_some(topics),
            enabled=active.config.settings.delete_topic_enable,
        )
        await active.store.delete_markers(topics)
