"""Brokers that are back after topics were deleted without them: what they still have of these goes first.

A broker gets no LeaderAndIsr of a newer topic of the name before it has answered and the record is deleted. So nothing
of a newer topic is there as long as a record stands, and a repeated StopReplica cannot delete it, whichever controller
sends it and however often. Not of Kafka (KAFKA-10548). D-99, D-100
"""

from collections.abc import Collection, Mapping, Sequence

import structlog

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.state_machines import ReplicaState
from controller.active_controller import ActiveController
from controller.changes import LeftReplicasDeleted, LeftReplicasRecorded
from controller.decisions.reassignment.phases import reassigned_on
from controller.decisions.topics.deletion import deleted_left_replicas, superseded_records, withdrawn_records
from controller.events import LeftReplicasResponseReceived
from controller.handlers.partitions.partition_transitions import trigger_online_elections
from controller.handlers.partitions.replica_transitions import move_replicas
from controller.handlers.reassignment.engine import reassign
from controller.handlers.topics.deletions import resume_deletions

_log = structlog.stdlib.get_logger()


async def take_over_left_replicas(active: ActiveController) -> None:
    """Take over the records of earlier controllers, once the cluster is loaded and before anything is decided.

    Records of which another controller made something else meanwhile are deleted (D-100).
    """
    found = await active.left_replicas.read()
    if found is None:
        return
    active.commit(LeftReplicasRecorded(found.left))
    superseded = superseded_records(active.context, found.last_epoch)
    if superseded:
        _log.warning("Another controller gave brokers newer topics of the names of deleted ones", topics=superseded)
        await _drop(active, superseded)
    await active.left_replicas.keep_to()


async def keep_undeleted_replicas(active: ActiveController) -> None:
    """Delete the records of topics that are there and are not to be deleted any more, once it is known which are."""
    withdrawn = withdrawn_records(active.context)
    if withdrawn:
        _log.warning("Topics are not deleted after all; brokers that were away keep their replicas", topics=withdrawn)
        await _drop(active, withdrawn)


async def _drop(active: ActiveController, records: Mapping[BrokerId, Sequence[str]]) -> None:
    await active.left_replicas.delete(records)
    for broker, topics in records.items():
        active.commit(LeftReplicasDeleted(broker, tuple(topics)))


def delete_left_replicas(active: ActiveController, brokers: Collection[BrokerId]) -> None:
    """Ask brokers to delete what they still have of topics that were deleted while they were away."""
    concerned = active.context.deletions.left_replicas.keys() & brokers
    batch = active.new_batch()
    for broker in sorted(concerned):
        batch.add_deletion_of_left_replicas(broker)
    active.send(batch)


async def left_replicas_answered(active: ActiveController, event: LeftReplicasResponseReceived) -> None:
    """Delete the records of what a broker has deleted, and give it the replicas of newer topics of the names."""
    context, broker = active.context, event.broker
    if context.brokers.epochs.get(broker) != event.broker_epoch:
        return
    refused = {str(tp): code.name for tp, code in event.results.items() if code is not ErrorCode.NONE}
    if refused:
        _log.warning("Deleting replicas of deleted topics failed", broker=broker, refused=refused)
    done = deleted_left_replicas(context, broker, event.results)
    gone = (await active.left_replicas.delete({broker: done})).get(broker, [])
    if not gone:
        return
    active.commit(LeftReplicasDeleted(broker, tuple(gone)))
    _log.info(
        "A broker deleted replicas of topics that were deleted while it was away", broker=broker, topics=len(gone)
    )
    topics = set(gone)
    hosted = [
        tp
        for tp in context.topics.partitions_on(broker)
        if tp.topic in topics and tp.topic not in context.deletions.queued
    ]
    await move_replicas(active, {broker: hosted}, ReplicaState.ONLINE)
    await trigger_online_elections(active)
    moving = [tp for tp in reassigned_on(context, [broker]) if tp.topic in topics]
    await reassign(active, {tp: context.topics.assignment(tp) for tp in moving})
    await resume_deletions(active, topics)
