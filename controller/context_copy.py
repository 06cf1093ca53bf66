"""Copies part of the controller context; the cost is proportional to the topics copied."""

from collections.abc import Iterable

from cluster.model.broker import BrokerId, RegisteredBroker
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import ReplicaState
from controller import changes
from controller.context import ControllerContext


def copy_of(context: ControllerContext, topics: Iterable[str]) -> ControllerContext:
    """Copy all brokers, all topic names, and the full state of `topics`; unknown topics are skipped."""
    copy = ControllerContext(context.epoch, context.epoch_zk_version)
    _copy_brokers(context, copy)
    copy.apply(changes.TopicsListed(tuple(context.topics)))
    names = [topic for topic in dict.fromkeys(topics) if topic in context.topics]
    for topic in names:
        if topic in context.topic_ids:
            copy.apply(changes.TopicIdRead(topic, context.topic_ids[topic]))
    partitions = [tp for topic in names for tp in context.partitions_of(topic)]
    copy.apply(changes.ReassignmentsWritten({tp: context.assignment(tp) for tp in partitions}))
    copy.apply(changes.LeadershipsRead({tp: context.leaderships[tp] for tp in partitions if tp in context.leaderships}))
    copy.apply(changes.DeletionsStarted(tuple(context.topics_with_deletion_started.intersection(names))))
    states = context.partition_states
    copy.apply(changes.PartitionStatesDerived({tp: states[tp] for tp in partitions if tp in states}))
    _copy_replica_states(context, copy, partitions)
    copy.apply(
        changes.ReassignmentsStarted(tuple(tp for tp in partitions if tp in context.partitions_being_reassigned))
    )
    queued = [topic for topic in names if topic in context.topics_to_be_deleted]
    copy.apply(changes.DeletionsQueued(tuple(queued)))
    copy.apply(changes.DeletionsIneligible(frozenset(context.topics_ineligible_for_deletion.intersection(names))))
    # After the leaderships, which would release them.
    for broker, report in context.damage_reports.items():
        copy.apply(changes.DamagedReplicasReported(broker, report.broker_epoch, {}))
        for tp, held in report.held.items():
            copy.apply(changes.DamagedReplicasReported(broker, report.broker_epoch, {tp: held.damage}, held.until_ms))
        copy.apply(changes.DamagedReplicasReplaced(broker, tuple(report.replaced)))
    copy.apply(changes.DamageReportsAwaited(context.awaited_reports))
    return copy


def _copy_brokers(context: ControllerContext, copy: ControllerContext) -> None:
    copy.apply(changes.BrokersGivenUp(tuple(context.brokers_given_up)))
    copy.apply(changes.LeftReplicasRecorded(context.left_replicas))
    epochs = context.broker_epochs
    copy.apply(
        changes.BrokersJoined(tuple(RegisteredBroker(broker, epochs[b]) for b, broker in context.brokers.items()))
    )
    copy.apply(changes.BrokersNotAdmitted(context.not_admitted))
    copy.apply(changes.ControllersListed(context.registered_controllers, context.former_controllers))
    for leaving in context.shutting_down:
        copy.apply(changes.BrokerShuttingDown(leaving, epochs[leaving], context.shutting_down_since[leaving]))
    for broker, partitions in context.offline_directories.items():
        copy.apply(changes.OfflineReplicasReported(broker, frozenset(partitions)))


def _copy_replica_states(
    context: ControllerContext, copy: ControllerContext, partitions: Iterable[TopicPartition]
) -> None:
    found: dict[tuple[BrokerId, ReplicaState], list[TopicPartition]] = {}
    for tp in partitions:
        known = context.leaderships.get(tp)
        # An unassigned ISR member is a removed replica whose removal from the ISR was refused by ZooKeeper.
        for broker in dict.fromkeys((*context.assignment(tp).replicas, *(known.isr if known is not None else ()))):
            state = context.replica_state(broker, tp)
            if state is not ReplicaState.NON_EXISTENT:
                found.setdefault((broker, state), []).append(tp)
    for (broker, state), in_state in found.items():
        copy.apply(changes.ReplicaStatesDerived(broker, tuple(in_state), state))
