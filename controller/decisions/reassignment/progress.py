"""Progress of reassignments, and the reason why one is stuck, for queries."""

from collections.abc import Iterable

from cluster.model.broker import NO_LEADER
from cluster.model.partition import TopicPartition
from cluster.requests.reassignments import (
    DescribedReassignment,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    TargetReplica,
)
from controller.decisions.context_view import ContextView


def list_reassignments(view: ContextView, partitions: Iterable[TopicPartition]) -> tuple[OngoingTopicReassignment, ...]:
    """List those of the partitions that are being reassigned; others, also unknown ones, are omitted (RA-50)."""
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for tp in sorted(partitions):
        assignment = view.topics.assignment(tp)
        if assignment.is_being_reassigned:
            by_topic.setdefault(tp.topic, []).append(
                OngoingPartitionReassignment(tp.partition, assignment.replicas, assignment.adding, assignment.removing)
            )
    return tuple(OngoingTopicReassignment(topic, tuple(partitions)) for topic, partitions in by_topic.items())


def describe_reassignment(view: ContextView, tp: TopicPartition) -> DescribedReassignment:
    assignment, leadership = view.topics.assignment(tp), view.leaderships.known.get(tp)
    isr = () if leadership is None else leadership.isr
    online = view.brokers.online_for(tp)
    return DescribedReassignment(
        tp.topic,
        tp.partition,
        NO_LEADER if leadership is None else leadership.leader,
        isr,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
        tuple(TargetReplica(b, b in isr, b in online) for b in assignment.target),
        stuck_reason(view, tp),
    )


def stuck_reason(view: ContextView, tp: TopicPartition) -> str:
    """Say why a reassignment cannot complete by itself; empty if it only waits for replicas to catch up."""
    leadership = view.leaderships.known.get(tp)
    if leadership is None or leadership.leader not in view.brokers.online_for(tp, include_shutting_down=True):
        return "the partition has no leader to copy from"
    missing = [b for b in view.topics.assignment(tp).target if b not in leadership.isr]
    reasons: list[str] = []
    for what, brokers in (
        ("not registered", [b for b in missing if b not in view.brokers.epochs]),
        ("shutting down", [b for b in missing if b in view.brokers.shutting_down]),
        ("on a failed log directory", [b for b in missing if b in view.brokers.live_ids - view.brokers.online_for(tp)]),
    ):
        if brokers:
            reasons.append(f"{'target' if len(brokers) == 1 else 'targets'} {', '.join(map(str, brokers))} {what}")
    return "; ".join(reasons)
