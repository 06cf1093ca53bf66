"""What new partitions would come to, told without making them.

The decisions and the batch are those of the real thing, on a context of their own in which the partitions exist.
"""

from collections.abc import Mapping

from cluster.broker import RegisteredBroker
from cluster.partition import EMPTY_ASSIGNMENT, ReplicaAssignment, TopicPartition
from cluster.requests.plans import Plan, PlannedChange
from controller.active_controller import ActiveController
from controller.changes import AssignmentsRead, BrokerShuttingDown, BrokersJoined, LeadershipsRead, TopicsListed
from controller.context import ControllerContext
from controller.decisions.broker_requests import ControlBatch
from controller.decisions.partitions.partition_states import plan_initialisations
from controller.decisions.plans import described_partition, planned_requests


def preview_new_partitions(active: ActiveController, added: Mapping[str, Mapping[int, ReplicaAssignment]]) -> Plan:
    """`added`: topic -> partition -> replicas. A partition without a live replica would have no leader (PS-7)."""
    partitions = [TopicPartition(topic, p) for topic, assigned in added.items() for p in sorted(assigned)]
    foreseen = _with_partitions(active.context, added)
    creations = plan_initialisations(foreseen, partitions).creations
    foreseen.apply(LeadershipsRead(creations))
    batch = ControlBatch(foreseen)
    for tp, leadership in creations.items():
        batch.add_leader_and_isr(leadership.isr, tp, leadership, foreseen.assignment(tp), is_new=True)
    changes = tuple(
        PlannedChange(
            tp.topic,
            described_partition(foreseen, tp, None, EMPTY_ASSIGNMENT),
            described_partition(foreseen, tp, creations.get(tp), foreseen.assignment(tp)),
        )
        for tp in partitions
    )
    return Plan(changes, planned_requests([batch], active.config.id, active.config.request_settings))


def _with_partitions(
    context: ControllerContext, added: Mapping[str, Mapping[int, ReplicaAssignment]]
) -> ControllerContext:
    """The same brokers, and of the cluster's partitions only these."""
    foreseen = ControllerContext(context.epoch, context.epoch_zk_version)
    epochs = context.broker_epochs
    foreseen.apply(BrokersJoined(tuple(RegisteredBroker(broker, epochs[b]) for b, broker in context.brokers.items())))
    for broker_id in context.shutting_down:
        foreseen.apply(BrokerShuttingDown(broker_id, epochs[broker_id]))
    foreseen.apply(TopicsListed(tuple(added)))
    foreseen.apply(
        AssignmentsRead({TopicPartition(t, p): a for t, assigned in added.items() for p, a in assigned.items()})
    )
    return foreseen
