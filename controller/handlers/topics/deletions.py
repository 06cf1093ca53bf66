"""Topics are deleted: queued by their marker, deleted replica by replica, held while that cannot be, and finished.

Everything goes for all queued topics at once, so a hundred topics cost as many requests as one. What is left to do
follows from the states of replicas alone, and ZooKeeper keeps the marker until the end: a controller that dies
anywhere in between leaves what the next one begins with. Source: Kafka TopicDeletionManager.
"""

from collections.abc import Collection, Iterable
from typing import Final

import structlog

from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.requests.control import StopReplicaRequest, StopReplicaResponse
from cluster.state_machines import PartitionState, ReplicaState
from controller.active_controller import ActiveController
from controller.changes import (
    DeletionsEligible,
    DeletionsIneligible,
    DeletionsQueued,
    DeletionsStarted,
    DeletionsWithdrawn,
    TopicsRemoved,
)
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
    """Queue the topics marked for deletion in ZooKeeper, on controller failover; no deletion starts yet (FO-7, FO-8,
    TD-1).
    """
    context = active.context
    marked = await active.store.list_deletion_markers()
    if not active.config.delete_topic_enable:
        await _drop_markers(active, marked)
        return
    moving = _queue(active, marked, recorded=False)
    held = topics_with_offline_replicas(context, context.topics_to_be_deleted)
    active.commit(DeletionsIneligible(frozenset(held)))
    if marked:
        _log.info("Topics wait for their deletion", **_some(marked), on_hold=len(held | moving))


async def try_deletions(active: ActiveController) -> None:
    """Take what was queued as far as it goes, at the end of a failover (FO-13, TD-5)."""
    await _resume_all(active)


async def topic_deletion(active: ActiveController) -> None:
    """Somebody marked topics for deletion, or markers went (TD-10 to TD-12)."""
    context = active.context
    marked = await active.store.list_deletion_markers()
    if not active.config.delete_topic_enable:
        await _drop_markers(active, marked)
        return
    await _drop_markers(active, [topic for topic in marked if topic not in context.topics])
    active.commit(DeletionsWithdrawn(tuple(context.deletions_postponed.difference(marked))))
    new = [topic for topic in marked if topic in context.topics and not context.is_marked_for_deletion(topic)]
    moving = _queue(active, new, recorded=True)
    if new:
        _log.info("Topics are to be deleted", **_some(new), on_hold=len(moving))
    await _resume_all(active)


async def resume_deletions(active: ActiveController, topics: Iterable[str]) -> None:
    """What held these topics is over: a broker returned or a reassignment is complete (TD-6).

    A topic with another partition on the move stays on hold. Topics that are not marked are not concerned.
    """
    context = active.context
    marked = context.topics_marked_for_deletion.intersection(topics)
    if not marked:
        return
    ready = marked - topics_being_reassigned(context, marked)
    active.commit(DeletionsEligible(tuple(sorted(ready))))
    await _resume_all(active)


async def brokers_with_deletions_started(active: ActiveController, brokers: Collection[BrokerId]) -> None:
    """The dead may have returned: go on with the topics that have replicas there (BK-16)."""
    queued = active.context.topics_to_be_deleted
    if queued:
        await resume_deletions(
            active, {tp.topic for b in brokers for tp in active.context.partitions_on_broker(b) if tp.topic in queued}
        )


def _queue(active: ActiveController, topics: Collection[str], *, recorded: bool) -> set[str]:
    """Queue topics for deletion; those with partitions on the move later, which are returned (D-1).

    A replica that is being added would survive its topic.
    """
    moving = topics_being_reassigned(active.context, topics)
    queued = tuple(topic for topic in topics if topic not in moving)
    active.commit(DeletionsQueued(queued, tuple(sorted(moving)), recorded))
    return moving


async def deletions_failed(active: ActiveController, replicas: Replicas) -> None:
    """Put the topics of these replicas on hold; the other replicas go on (TD-8)."""
    failed = filter_queued(active.context, replicas)
    if failed:
        await move_replicas(active, deletable_replicas(active.context, failed), ReplicaState.DELETION_INELIGIBLE)
        topics = sorted({tp.topic for partitions in failed.values() for tp in partitions})
        active.commit(DeletionsIneligible(frozenset(topics)))
        _log.info("Deletions are on hold", **_some(topics), brokers=sorted(failed))
        await _resume_all(active)


def deletion_answer(
    active: ActiveController, broker: BrokerId, request: StopReplicaRequest, response: StopReplicaResponse
) -> TopicDeletionStopReplicaResponseReceived | None:
    """What an answer says about topics being deleted; None for all others, reassignments among them (RQ-21)."""
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
    """A broker has deleted replicas, or could not (TD-20)."""
    refused = event.error_code is not ErrorCode.NONE
    failed = [tp for tp, code in event.results.items() if refused or code is not ErrorCode.NONE]
    deleted = [tp for tp, code in event.results.items() if not refused and code is ErrorCode.NONE]
    if failed:
        _log.warning("Replicas were not deleted", broker=event.broker, count=len(failed), first=str(failed[0]))
        await deletions_failed(active, {event.broker: failed})
    if deleted:
        await _complete(active, {event.broker: deleted})


async def _complete(active: ActiveController, replicas: Replicas) -> None:
    """The broker's replicas are deleted for good; perhaps their topics are, too (TD-7)."""
    deleted = filter_queued(active.context, replicas)
    await move_replicas(active, deleted, ReplicaState.DELETION_SUCCESSFUL)
    await _resume_all(active)


async def _resume_all(active: ActiveController) -> None:
    """Take every queued topic as far as it goes (TD-9)."""
    steps = next_steps(active.context)
    if steps.finish:
        await _finish(active, steps.finish)
    if steps.retry:
        await move_replicas(active, failed_replicas(active.context, steps.retry), ReplicaState.OFFLINE)
    if steps.start:
        await _start(active, steps.start)


async def _start(active: ActiveController, topics: Collection[str]) -> None:
    """Make clients and brokers forget the topics, then have their replicas deleted (TD-13)."""
    context = active.context
    plan = plan_start(context, topics)
    # Through OfflinePartition, and counted as started only afterwards: so the count of offline partitions goes up
    # and comes down again.
    await move_partitions(active, plan.partitions, PartitionState.OFFLINE)
    await move_partitions(active, plan.partitions, PartitionState.NON_EXISTENT)
    active.commit(DeletionsStarted(tuple(topics)))
    batch = active.new_batch()
    batch.add_update_metadata_for_all(tp for topic in topics for tp in context.partitions_of(topic))
    active.send(batch)
    await move_replicas(active, plan.dead, ReplicaState.DELETION_INELIGIBLE)
    # Replicas stop before any of them is deleted, so that none fetches from a leader that is gone.
    await move_replicas(active, plan.alive, ReplicaState.OFFLINE)
    await move_replicas(active, plan.alive, ReplicaState.DELETION_STARTED)
    active.commit(DeletionsIneligible(frozenset(plan.held)))
    if plan.held:
        _log.info("Deletions wait for dead brokers", **_some(plan.held), brokers=sorted(plan.dead))


async def _finish(active: ActiveController, topics: Collection[str]) -> None:
    """Remove topics whose replicas are all deleted from ZooKeeper, and with that acknowledged from here (TD-15)."""
    context = active.context
    gone = await active.store.delete_topics(topics)
    partitions = [tp for topic in gone for tp in context.partitions_of(topic)]
    await move_replicas(active, replicas_of(context, partitions), ReplicaState.NON_EXISTENT)
    active.commit(TopicsRemoved(tuple(gone), deleted=True))
    await drop_reassignments_of_topics(active, gone)
    _log.info("Topics are deleted", **_some(gone))


def _some(topics: Iterable[str]) -> dict[str, object]:
    """How many, and the first of them by name: enough for a line of the log."""
    names = sorted(topics)
    return {"count": len(names), "first": names[:_NAMES_IN_LOG]}


async def _drop_markers(active: ActiveController, topics: Collection[str]) -> None:
    if topics:
        _log.warning("Deletions are refused", **_some(topics), enabled=active.config.delete_topic_enable)
        await active.store.delete_markers(topics)
