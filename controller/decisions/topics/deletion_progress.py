"""Progress of topic deletions, and what the blocked ones wait for, as text for operators."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from cluster.model.broker import BrokerId
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.requests.topics import DescribedTopicDeletion, WaitingReplica
from controller.decisions.context_view import ContextView

_NONE: Final[Mapping[BrokerId, int]] = MappingProxyType({})


def describe_deletion(
    view: ContextView, topic: str, absences_end_ms: Mapping[BrokerId, int] = _NONE
) -> DescribedTopicDeletion:
    """Describe a topic marked for deletion.

    `absences_end_ms`: when it is completed without each broker that is away, of the wall clock.
    """
    counts = view.replicas.by_state(topic)
    waiting = tuple(
        WaitingReplica(tp.partition, broker, state.value, _why_it_waits(view, broker, tp, state, absences_end_ms))
        for tp in view.topics.partitions_of(topic)
        for broker in view.topics.assignment(tp).replicas
        if (state := view.replicas.state(broker, tp)) is not ReplicaState.DELETION_SUCCESSFUL
    )
    on_hold = topic in view.deletions.ineligible
    in_progress = counts.get(ReplicaState.DELETION_STARTED, 0) > 0
    return DescribedTopicDeletion(
        topic,
        "on hold" if on_hold else "in progress" if in_progress else "waiting",
        _why_it_is_held(view, topic, waiting) if on_hold else "",
        deleted_replicas=counts.get(ReplicaState.DELETION_SUCCESSFUL, 0),
        replicas=sum(counts.values()),
        waiting=waiting,
    )


def _why_it_waits(
    view: ContextView,
    broker: BrokerId,
    tp: TopicPartition,
    state: ReplicaState,
    absences_end_ms: Mapping[BrokerId, int],
) -> str:
    if broker not in view.brokers.live_ids:
        end_ms = absences_end_ms.get(broker)
        if end_ms is None:
            return f"broker {broker} is not alive"
        at = datetime.fromtimestamp(end_ms / 1000, UTC).strftime("%H:%M:%S UTC")
        return f"broker {broker} is not alive; the topic is deleted without it at {at}"
    if view.deletions.has_left_replicas(broker, tp.topic):
        return f"broker {broker} has not deleted an earlier topic of the name yet"
    if broker not in view.brokers.online_for(tp):
        return f"the log directory on broker {broker} has failed"
    if state is ReplicaState.DELETION_STARTED:
        return f"broker {broker} has not answered yet"
    return ""


def _why_it_is_held(view: ContextView, topic: str, waiting: tuple[WaitingReplica, ...]) -> str:
    """Say all reasons why it is held; the deletion resumes when none is left."""
    reasons: list[str] = []
    offline = {replica.broker_id for replica in waiting if replica.reason and replica.state != _STARTED}
    if offline:
        reasons.append(f"replicas offline on {_listed(offline)}")
    if not reasons:
        refused = {replica.broker_id for replica in waiting}
        reasons.append(f"refused by {_listed(refused)}; tried again when a broker of the topic starts")
    return "; ".join(reasons)


_STARTED = ReplicaState.DELETION_STARTED.value


def _listed(brokers: set[BrokerId]) -> str:
    """Write `broker 1` or `brokers 1, 2`."""
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, sorted(brokers)))}"
