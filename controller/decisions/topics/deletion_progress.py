"""Progress of topic deletions, and what the blocked ones wait for, as text for operators."""

from cluster.broker import BrokerId
from cluster.partition import TopicPartition
from cluster.requests.topics import DescribedTopicDeletion, WaitingReplica
from cluster.state_machines import ReplicaState
from controller.decisions.context_view import ContextView


def describe_deletion(view: ContextView, topic: str) -> DescribedTopicDeletion:
    """Describe a topic marked for deletion."""
    counts = view.replicas_by_state(topic)
    waiting = tuple(
        WaitingReplica(tp.partition, broker, state.value, _why_it_waits(view, broker, tp, state))
        for tp in view.partitions_of(topic)
        for broker in view.assignment(tp).replicas
        if (state := view.replica_state(broker, tp)) is not ReplicaState.DELETION_SUCCESSFUL
    )
    on_hold = topic in view.topics_ineligible_for_deletion or topic in view.deletions_postponed
    in_progress = counts.get(ReplicaState.DELETION_STARTED, 0) > 0
    return DescribedTopicDeletion(
        topic,
        "on hold" if on_hold else "in progress" if in_progress else "waiting",
        _why_it_is_held(view, topic, waiting) if on_hold else "",
        deleted_replicas=counts.get(ReplicaState.DELETION_SUCCESSFUL, 0),
        replicas=sum(counts.values()),
        waiting=waiting,
    )


def _why_it_waits(view: ContextView, broker: BrokerId, tp: TopicPartition, state: ReplicaState) -> str:
    if broker not in view.live_broker_ids:
        return f"broker {broker} is not alive"
    if broker not in view.online_brokers(tp):
        return f"the log directory on broker {broker} has failed"
    if state is ReplicaState.DELETION_STARTED:
        return f"broker {broker} has not answered yet"
    return ""


def _why_it_is_held(view: ContextView, topic: str, waiting: tuple[WaitingReplica, ...]) -> str:
    """All reasons; the deletion resumes when none is left."""
    reasons: list[str] = []
    moving = [tp.partition for tp in view.partitions_of(topic) if tp in view.partitions_being_reassigned]
    if moving:
        reasons.append(f"being reassigned: {_listed('partition', moving)}")
    offline = {replica.broker_id for replica in waiting if replica.reason and replica.state != _STARTED}
    if offline:
        reasons.append(f"replicas offline on {_listed('broker', offline)}")
    if not reasons:
        refused = {replica.broker_id for replica in waiting}
        reasons.append(f"refused by {_listed('broker', refused)}; tried again when a broker of the topic starts")
    return "; ".join(reasons)


_STARTED = ReplicaState.DELETION_STARTED.value


def _listed(thing: str, numbers: "list[int] | set[BrokerId]") -> str:
    """`broker 1`, `brokers 1, 2`."""
    return f"{thing}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"
