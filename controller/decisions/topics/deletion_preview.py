"""What deletions would do at once, told without doing it: the same decisions, on the side."""

from collections.abc import Collection

from cluster.broker import BrokerId, ControllerId
from cluster.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.requests.plans import Plan, PlannedChange
from controller.decisions.broker_requests import ControlBatch, RequestSettings
from controller.decisions.context_view import ContextView
from controller.decisions.partitions.replica_states import remove_from_isr
from controller.decisions.plans import described_partition, planned_requests
from controller.decisions.topics.deletion import DeletionStart, plan_start, topics_being_reassigned


def preview_deletions(
    view: ContextView, topics: Collection[str], controller: ControllerId, settings: RequestSettings
) -> Plan:
    """Leaders and epochs as they are when every live replica has stopped, the replicas that would then still be there,
    and the requests that would be queued.

    Topics that are marked already, and those that must wait for their moves (D-1), contribute nothing.
    """
    waiting = view.topics_marked_for_deletion | topics_being_reassigned(view, topics)
    start = plan_start(view, [topic for topic in topics if topic not in waiting])
    stopped = _leaderships_after(view, start)
    changes = tuple(
        PlannedChange(
            tp.topic,
            described_partition(view, tp, view.leaderships.get(tp), view.assignment(tp)),
            described_partition(view, tp, stopped.get(tp), ReplicaAssignment(_staying(view, start, tp))),
        )
        for tp in start.partitions
    )
    return Plan(changes, planned_requests(_batches(view, start), controller, settings))


def _leaderships_after(view: ContextView, start: DeletionStart) -> dict[TopicPartition, LeaderAndIsr]:
    """Each live replica leaves its ISR in turn, brokers in order of id (RM-4)."""
    current = {tp: view.leaderships[tp] for tp in start.partitions if tp in view.leaderships}
    for broker in sorted(start.alive):
        for tp in start.alive[broker]:
            if tp in current:
                current[tp] = remove_from_isr(current[tp], broker, view.epoch) or current[tp]
    return current


def _staying(view: ContextView, start: DeletionStart, tp: TopicPartition) -> tuple[BrokerId, ...]:
    return tuple(b for b in view.assignment(tp).replicas if tp not in start.alive.get(b, ()))


def _batches(view: ContextView, start: DeletionStart) -> tuple[ControlBatch, ...]:
    """Everybody forgets the partitions, then live replicas stop, then they are deleted (TD-13)."""
    announcement, stop, deletion = ControlBatch(view), ControlBatch(view), ControlBatch(view)
    if not start.partitions:
        return ()
    announcement.add_update_metadata_for_all(start.partitions)
    for broker in sorted(start.alive):
        for tp in start.alive[broker]:
            stop.add_stop_replica(broker, tp, delete=False)
            if tp not in view.leaderships:
                stop.add_update_metadata_for_all([tp])
            deletion.add_stop_replica(broker, tp, delete=True)
    return announcement, stop, deletion
