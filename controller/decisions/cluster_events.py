"""Derives the events of the Watch stream from state-change records.

The stream and the state-change log are made from the same records, so nothing is in one only. Each partition is
reported as it is after the whole controller event, not after each step.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from cluster.model.broker import NO_LEADER, NO_LEADER_EPOCH, BrokerId, ControllerId
from cluster.model.partition import ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState
from cluster.requests.cluster import ClusterEvent
from controller.decisions.context_view import ContextView
from state_log.record import Kind, StateChange

REASSIGNMENT_STARTED: Final = "started"
REASSIGNMENT_CANCELLED: Final = "cancelled"
REASSIGNMENT_COMPLETED: Final = "completed"
"""`to_state` of a completed reassignment, for records of kind ASSIGNMENT. Without a `to_state` the assignment was
written and the reassignment is not complete.
"""

_NAMED_AFTER_STATE: Final[dict[Kind, dict[str | None, tuple[str, ...]]]] = {
    Kind.BROKER: {
        "live": ("broker_joined",),
        "bounced": ("broker_left", "broker_joined"),
        "dead": ("broker_left",),
        "shutting_down": ("broker_changed",),
        "changed": ("broker_changed",),
    },
    Kind.TOPIC: {
        "created": ("topic_created",),
        "queued for deletion": ("topic_deletion_started",),
        "deleted": ("topic_deleted",),
        "removed": ("topic_deleted",),
    },
    Kind.ASSIGNMENT: {
        REASSIGNMENT_STARTED: ("reassignment_started",),
        REASSIGNMENT_CANCELLED: ("reassignment_cancelled",),
        REASSIGNMENT_COMPLETED: ("reassignment_completed",),
    },
}


def recorded_as(view: ContextView, tp: TopicPartition, assignment: ReplicaAssignment) -> str | None:
    """The `to_state` of an assignment written when a reassignment starts or is cancelled."""
    if assignment.is_being_reassigned:
        return REASSIGNMENT_STARTED
    return REASSIGNMENT_CANCELLED if tp in view.topics.being_reassigned else None


def cluster_events(
    view: ContextView, changes: Sequence[StateChange], controller: ControllerId, at_ms: int
) -> list[ClusterEvent]:
    """The events of one controller event, in the order of its changes, each once; `view`: the state after it."""
    created = {c.topic for c in changes if c.kind is Kind.TOPIC and c.to_state == "created"}
    cancelled = {
        (c.topic, c.partition) for c in changes if c.kind is Kind.ASSIGNMENT and c.to_state == REASSIGNMENT_CANCELLED
    }
    events: dict[tuple[str, str | None, int | None], ClusterEvent] = {}
    for change in changes:
        if change.to_state == REASSIGNMENT_COMPLETED and (change.topic, change.partition) in cancelled:
            # The return to the original replicas ends like any other reassignment.
            continue
        for kind in _kinds(change, created):
            about = change.broker if change.kind is Kind.BROKER else change.partition
            if kind == "partitions_added":
                about = None
            key = (kind, change.topic, about)
            if key not in events:
                events[key] = _event(view, kind, change, controller, at_ms)
    return list(events.values())


def _kinds(change: StateChange, created: set[str | None]) -> Iterable[str]:
    match change.kind:
        case Kind.BROKER | Kind.TOPIC | Kind.ASSIGNMENT:
            return _NAMED_AFTER_STATE[change.kind].get(change.to_state, ())
        case Kind.ISR:
            # Removing the leader from the ISR leaves the partition without a leader.
            return ("leader_changed", "isr_changed") if change.leader == NO_LEADER else ("isr_changed",)
        case Kind.PARTITION if change.leader is not None:
            return ("leader_changed",)
        case Kind.PARTITION if change.to_state == PartitionState.NEW.value and change.topic not in created:
            return ("partitions_added",)
        case _:
            return ()


def _event(view: ContextView, kind: str, change: StateChange, controller: ControllerId, at_ms: int) -> ClusterEvent:
    topic = "" if change.topic is None else change.topic
    if change.kind is Kind.BROKER or change.partition is None or kind == "partitions_added":
        broker = BrokerId(-1 if change.broker is None else change.broker)
        return ClusterEvent(kind, at_ms, view.epoch, controller, topic, broker=broker)
    tp = TopicPartition(topic, change.partition)
    assignment, leadership = view.topics.assignment(tp), view.leaderships.known.get(tp)
    return ClusterEvent(
        kind,
        at_ms,
        view.epoch,
        controller,
        topic,
        change.partition,
        leader=NO_LEADER if leadership is None else leadership.leader,
        leader_epoch=NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch,
        isr=() if leadership is None else leadership.isr,
        replicas=assignment.replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
    )
