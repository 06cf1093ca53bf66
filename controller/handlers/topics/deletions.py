"""Topic deletion: queues marked topics, deletes their replicas, pauses while that is impossible, removes the znodes.

All queued topics go through each step together, so a hundred topics cost as many requests as one. The remaining work
follows from the replica states alone, and ZooKeeper keeps the marker until the end, so the next controller can resume
after a failure at any point. Source: Kafka TopicDeletionManager.
"""

from collections.abc import Collection, Iterable
from typing import Final

import structlog

from cluster import bounds
from cluster.bounds import shortened
from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.requests.control import StopReplicaRequest, StopReplicaResponse
from cluster.state_machines import PartitionState, ReplicaState
from controller import changes
from controller.active_controller import ActiveController
from controller.decisions.topics.deletion import (
    deletable_replicas,
    failed_replicas,
    filter_queued,
    next_steps,
    plan_start,
    topics_being_reassigned,
    topics_with_offline_replicas,
)
from controller.events import TopicDeletionStopReplicaResponseReceived
from controller.handlers.partitions.partition_transitions import move_partitions
from controller.handlers.partitions.replica_transitions import Replicas, move_replicas, replicas_of
from controller.handlers.reassignment.reassignment_znode import drop_reassignments_of_topics

_NAMES_IN_LOG: Final = 10
_log = structlog.stdlib.get_logger()


async def initialise_deletions(active: ActiveController) -> None:
    """Queue the topics marked for deletion on controller failover; no deletion starts yet (FO-7, FO-8, TD-1)."""
    context = active.context
    listed = await active.store.list_deletion_markers()
    if not active.config.delete_topic_enable:
        await _drop_markers(active, listed)
        return
    marked = await _delete_unacceptable(active, listed)
    moving = _queue(active, marked, recorded=False)
    held = topics_with_offline_replicas(context, context.topics_to_be_deleted)
    active.commit(changes.DeletionsIneligible(frozenset(held)))
    if marked:
        _log.info("Found topics marked for deletion", **_some(marked), on_hold=len(held | moving))


async def topic_deletion(active: ActiveController) -> None:
    """Handle topics newly marked for deletion and markers that were removed (TD-10 to TD-12)."""
    context = active.context
    listed = await active.store.list_deletion_markers()
    if not active.config.delete_topic_enable:
        await _drop_markers(active, listed)
        return
    marked = await _delete_unacceptable(active, listed)
    await _drop_markers(active, [topic for topic in marked if topic not in context.topics])
    withdrawn = tuple(context.deletions_postponed.difference(marked))
    active.commit(changes.DeletionsWithdrawn(withdrawn))
    active.topic_calls.drop(withdrawn)
    new = [topic for topic in marked if topic in context.topics and not context.is_marked_for_deletion(topic)]
    moving = _queue(active, new, recorded=True)
    if new:
        _log.info("Topics queued for deletion", **_some(new), on_hold=len(moving))
    await try_deletions(active)


async def resume_deletions(active: ActiveController, topics: Iterable[str]) -> None:
    """Resume deletion of topics that were blocked, after a broker returned or a reassignment completed (TD-6).

    A topic with another ongoing reassignment stays postponed. Topics that are not marked are ignored.
    """
    context = active.context
    marked = context.topics_marked_for_deletion.intersection(topics)
    if not marked:
        return
    ready = marked - topics_being_reassigned(context, marked)
    active.commit(changes.DeletionsEligible(tuple(sorted(ready))))
    await try_deletions(active)


async def brokers_with_deletions_started(active: ActiveController, brokers: Collection[BrokerId]) -> None:
    """Resume deletion of topics that have replicas on brokers that started (BK-16)."""
    queued = active.context.topics_to_be_deleted
    if queued:
        await resume_deletions(
            active, {tp.topic for b in brokers for tp in active.context.partitions_on_broker(b) if tp.topic in queued}
        )


def _queue(active: ActiveController, topics: Collection[str], *, recorded: bool) -> set[str]:
    """Queue topics for deletion; those with ongoing reassignments are postponed and returned (D-1).

    Otherwise a replica that is being added would outlive its topic.
    """
    moving = topics_being_reassigned(active.context, topics)
    queued = tuple(topic for topic in topics if topic not in moving)
    active.commit(changes.DeletionsQueued(queued, tuple(sorted(moving)), recorded))
    return moving


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
) -> TopicDeletionStopReplicaResponseReceived | None:
    """The event for a response about topics being deleted; None for others, such as those of reassignments (RQ-21)."""
    started = active.context.topics_with_deletion_started
    if not started:
        return None
    asked = {(s.topic_name, s.partition_index) for s in request.partition_states if s.delete_partition}
    results = {
        TopicPartition(e.topic_name, e.partition_index): e.error_code
        for e in response.partition_errors
        if e.topic_name in started and (e.topic_name, e.partition_index) in asked
    }
    return TopicDeletionStopReplicaResponseReceived(broker, response.error_code, results) if results else None


async def deletion_answered(active: ActiveController, event: TopicDeletionStopReplicaResponseReceived) -> None:
    """Process the result of replica deletion on a broker (TD-20)."""
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
    if steps.start:
        await _start(active, steps.start)


async def _start(active: ActiveController, topics: Collection[str]) -> None:
    """Remove the topics from the metadata of all brokers, then delete their replicas (TD-13)."""
    context = active.context
    plan = plan_start(context, topics)
    # Through OfflinePartition, and counted as started only afterwards, so the offline partition count rises and falls
    # again.
    await move_partitions(active, plan.partitions, PartitionState.OFFLINE)
    await move_partitions(active, plan.partitions, PartitionState.NON_EXISTENT)
    active.commit(changes.DeletionsStarted(tuple(topics)))
    batch = active.new_batch()
    batch.add_update_metadata_for_all(tp for topic in topics for tp in context.partitions_of(topic))
    active.send(batch)
    await move_replicas(active, plan.dead, ReplicaState.DELETION_INELIGIBLE)
    # Replicas are stopped before any is deleted, so that none fetches from a deleted leader.
    await move_replicas(active, plan.alive, ReplicaState.OFFLINE)
    await move_replicas(active, plan.alive, ReplicaState.DELETION_STARTED)
    active.commit(changes.DeletionsIneligible(frozenset(plan.held)))
    if plan.held:
        _log.info("Topic deletion waits for dead brokers", **_some(plan.held), brokers=sorted(plan.dead))


async def _finish(active: ActiveController, topics: Collection[str]) -> None:
    """Remove topics whose replicas are all deleted from ZooKeeper, then from the context (TD-15)."""
    context = active.context
    gone = await active.store.delete_topics(topics)
    partitions = [tp for topic in gone for tp in context.partitions_of(topic)]
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
            enabled=active.config.delete_topic_enable,
        )
        await active.store.delete_markers(topics)
