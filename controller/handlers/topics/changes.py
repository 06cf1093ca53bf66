"""Handles topics created, expanded or removed in ZooKeeper, by this controller's API or by any tool.

Source: Kafka KafkaController.processTopicChange, processPartitionModifications, onNewPartitionCreation.
"""

from collections.abc import Iterable, Mapping, Sequence

import structlog
from msgspec.structs import replace

from cluster.model.partition import TopicAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.znodes.paths import BROKERS_TOPICS
from controller.active_controller import ActiveController
from controller.changes import (
    AssignmentsRead,
    LeadershipsWritten,
    PartitionsMoved,
    ReplicasMoved,
    TopicsCreated,
    TopicsListed,
    TopicsRemoved,
)
from controller.context.controller_context import ControllerContext
from controller.decisions.partitions.leader_election import Offline
from controller.decisions.partitions.partition_states import initial_partition_state
from controller.events import PartitionModifications
from controller.handlers.partitions.partition_transitions import move_partitions, trigger_online_elections
from controller.handlers.partitions.replica_transitions import move_replicas, replicas_of
from controller.handlers.reassignment.engine import reassign
from controller.handlers.reassignment.reassignment_znode import drop_reassignments_of_topics
from controller.handlers.topics.controller_replicas import replace_controllers
from controller.handlers.topics.topic_ids import record_ids, restore_id, take_over_id
from state_log.reasons import READ_AFTER_REPAIR

_log = structlog.stdlib.get_logger()


async def topic_change(active: ActiveController) -> None:
    """Compare `/brokers/topics` with the known topics; create the partitions of new ones (TP-10 to TP-14)."""
    context = active.context
    listed = await active.store.list_topics()
    for topic in active.store.malformed.below(BROKERS_TOPICS):
        # The topic may have been deleted and created again in between, which used up the watch on its znode.
        active.enqueue(PartitionModifications(topic))
    new = [topic for topic in listed if topic not in context.topics.names]
    vanished = sorted(context.topics.names.difference(listed))
    topics = await replace_controllers(active, await active.store.read_topics(new))
    active.commit(TopicsListed(listed))
    if vanished:
        # Not the deletion procedure: somebody removed the znodes; no replica is deleted.
        _log.warning("Topics were removed from ZooKeeper without a deletion", topics=vanished)
        active.topic_calls.drop(vanished)
        active.commit(TopicsRemoved(tuple(vanished), deleted=False))
        await drop_reassignments_of_topics(active, vanished)
    record_assignments(active, topics)
    await record_ids(active, topics)
    active.commit(TopicsCreated(tuple(topics)))
    await create_partitions(active, [tp for topic in topics for tp in context.topics.partitions_of(topic)])
    active.topic_calls.drop(topics)


async def partition_modifications(active: ActiveController, topic: str) -> None:
    """Create partitions added to a topic znode, and write back an id that was dropped from it; all other changes of
    known partitions are ignored (TP-20 to TP-24).
    """
    context = active.context
    found = (await replace_controllers(active, await active.store.read_topics([topic]))).get(topic)
    if found is None or topic not in context.topics.names:
        return
    known_id, known = context.topics.ids.get(topic), context.topics.assignments.get(topic, {})
    if known_id is not None and found.topic_id is None:
        await restore_id(active, topic)
    elif known_id is None and found.topic_id is not None and known:
        await take_over_id(active, topic, found)
    added = sorted(found.partitions.keys() - known.keys())
    if not added:
        return
    if topic in context.deletions.queued:
        await _restore_partitions(active, topic)
        return
    if not known:
        # Its znode was malformed before.
        await record_ids(active, {topic: found})
    record_assignments(active, {topic: replace(found, partitions={p: found.partitions[p] for p in added})})
    partitions = [TopicPartition(topic, p) for p in added]
    await (create_partitions if known else take_over_partitions)(active, partitions)
    active.topic_calls.drop([topic])


async def partition_state_change(active: ActiveController, tp: TopicPartition) -> None:
    """A state znode that was malformed has changed: take it over if it is sound now, as a failover would (BD-6)."""
    if not active.context.topics.assignment(tp).replicas or tp.topic in active.context.deletions.queued:
        await active.store.read_states([tp])
        return
    await take_over_partitions(active, [tp])


async def take_over_partitions(active: ActiveController, partitions: Sequence[TopicPartition]) -> None:
    """Take over partitions that have become readable: those with a state as a failover does, the others as new ones.

    Their topic znode may have been malformed when this controller became active, while brokers serve them (BD-6).
    """
    context = active.context
    states = {
        tp: leadership
        for tp, leadership in (await active.store.read_states(partitions)).items()
        # A state without an assigned replica in sync is of an earlier topic of that name.
        if not set(leadership.isr).isdisjoint(context.topics.assignment(tp).replicas)
    }
    unknown = {tp: leadership for tp, leadership in states.items() if leadership != context.leaderships.known.get(tp)}
    active.commit(LeadershipsWritten(unknown, READ_AFTER_REPAIR))
    await create_partitions(active, [tp for tp in partitions if tp not in states and is_unknown(context, tp)])
    if not states:
        return
    replicas = replicas_of(context, states)
    live = {broker: hosted for broker, hosted in replicas.items() if broker in context.brokers.live_ids}
    dead = {broker: hosted for broker, hosted in replicas.items() if broker not in live}
    for broker, hosted in replicas.items():
        # Also of dead brokers: if a write is refused, the retry takes offline what is still online on them.
        before = dict.fromkeys(hosted, ReplicaState.NON_EXISTENT)
        active.commit(ReplicasMoved(broker, before, ReplicaState.ONLINE, recorded=False))
    active.commit(PartitionsMoved({tp: initial_partition_state(context, tp) for tp in states}, recorded=False))
    await move_replicas(active, live, ReplicaState.ONLINE)
    await move_replicas(active, dead, ReplicaState.OFFLINE)
    for topic in dict.fromkeys(tp.topic for tp in states):
        await trigger_online_elections(active, topic)
    moving = [tp for tp in states if tp in context.topics.being_reassigned]
    await reassign(active, {tp: context.topics.assignment(tp) for tp in moving})


def is_unknown(context: ControllerContext, tp: TopicPartition) -> bool:
    """Whether a partition is not known yet, or still waits for its first leader."""
    return context.leaderships.partition_state(tp) in {PartitionState.NON_EXISTENT, PartitionState.NEW}


def record_assignments(
    active: ActiveController, topics: Mapping[str, TopicAssignment], known: Iterable[TopicPartition] = ()
) -> None:
    """Apply the assignments of topics as read to the context (LC-5, TP-13).

    `known`: partitions that there are objects of, which the context shares.
    """
    objects: dict[tuple[str, int], TopicPartition] = {tp: tp for tp in known}
    active.commit(
        AssignmentsRead(
            {
                objects.get((topic, p)) or TopicPartition(topic, p): replicas
                for topic, a in topics.items()
                for p, replicas in a.partitions.items()
            }
        )
    )


async def create_partitions(active: ActiveController, partitions: Sequence[TopicPartition]) -> None:
    """Create partitions and replicas, elect the first leader, bring the replicas online."""
    if not partitions:
        return
    replicas = replicas_of(active.context, partitions)
    await move_partitions(active, partitions, PartitionState.NEW)
    await move_replicas(active, replicas, ReplicaState.NEW, recorded=False)
    await move_partitions(active, partitions, PartitionState.ONLINE, Offline())
    await move_replicas(active, replicas, ReplicaState.ONLINE, recorded=False)


async def _restore_partitions(active: ActiveController, topic: str) -> None:
    """Write the topic znode back with the existing partitions: a topic marked for deletion may not grow (TP-21)."""
    context = active.context
    existing = await active.store.existing_partitions(topic)
    known = {p: assignment for p, assignment in context.topics.assignments.get(topic, {}).items() if p in existing}
    await active.store.write_topics({topic: TopicAssignment(known, context.topics.ids.get(topic))})
