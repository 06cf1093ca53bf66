"""Topic deletion: which queued topics are finished, can be retried, or can start.

A deletion proceeds with the live replicas and then waits. A topic is finished when every replica has been deleted, so
that none can return with old data; what a broker has that stays away for long is recorded and deleted when it is back.
Source: Kafka TopicDeletionManager.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from cluster.model.broker import BrokerId, ControllerEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import PREVIOUS_REPLICA_STATES, ReplicaState
from cluster.znodes.left_replicas import LeftReplicas
from controller.decisions.context_view import ContextView

Replicas = dict[BrokerId, list[TopicPartition]]
_MAY_FAIL: Final = PREVIOUS_REPLICA_STATES[ReplicaState.DELETION_INELIGIBLE]


class DeletionSteps(Struct, frozen=True):
    """The next step of each queued topic, sorted by name (TD-9). A topic may be in `retry` and in `start`."""

    finish: tuple[str, ...]
    retry: tuple[str, ...]
    start: tuple[str, ...]


def next_steps(view: ContextView) -> DeletionSteps:
    """Classify every queued topic by the states of its replicas; a topic without replicas is finished at once."""
    finish: list[str] = []
    retry: list[str] = []
    start: list[str] = []
    for topic in sorted(view.deletions.queued):
        counts = view.replicas.by_state(topic)
        if sum(counts.values()) == counts.get(ReplicaState.DELETION_SUCCESSFUL, 0):
            finish.append(topic)
            continue
        if counts.get(ReplicaState.DELETION_STARTED, 0):
            continue
        if counts.get(ReplicaState.DELETION_INELIGIBLE, 0):
            retry.append(topic)
        if topic not in view.deletions.ineligible:
            start.append(topic)
    return DeletionSteps(tuple(finish), tuple(retry), tuple(start))


def failed_replicas(view: ContextView, topics: Iterable[str]) -> Replicas:
    """Replicas of the topics whose deletion failed, to be stopped again before a retry."""
    return _by_broker(
        view, topics, lambda broker, tp: view.replicas.state(broker, tp) is ReplicaState.DELETION_INELIGIBLE
    )


class DeletionStart(Struct, frozen=True):
    """`partitions`: of topics that start for the first time; they lose their states. `unborn`: replicas that a
    reassignment had not got as far as adding, or had removed without completing. `dead`: replicas that cannot be
    deleted now, which makes the `held` topics ineligible. `left`: those on brokers that are given up (D-98). `alive`:
    replicas to delete (TD-13).
    """

    partitions: tuple[TopicPartition, ...]
    unborn: Replicas
    dead: Replicas
    left: Replicas
    alive: Replicas
    held: tuple[str, ...]


def plan_start(view: ContextView, topics: Iterable[str]) -> DeletionStart:
    """Sort the replicas of topics whose deletion starts or continues by what can be done about each now."""
    names = tuple(topics)
    fresh = [t for t in names if t not in view.deletions.started]
    held: dict[str, None] = {}

    def is_dead(broker: BrokerId, tp: TopicPartition) -> bool:
        if broker in view.brokers.online_for(tp) or is_given_up(view, broker, tp.topic):
            return False
        held[tp.topic] = None
        return view.replicas.state(broker, tp) in _MAY_FAIL

    def is_left(broker: BrokerId, tp: TopicPartition) -> bool:
        return is_given_up(view, broker, tp.topic) and not is_deleted(broker, tp)

    def is_alive(broker: BrokerId, tp: TopicPartition) -> bool:
        return not is_deleted(broker, tp) and broker in view.brokers.online_for(tp)

    def is_deleted(broker: BrokerId, tp: TopicPartition) -> bool:
        return view.replicas.state(broker, tp) is ReplicaState.DELETION_SUCCESSFUL

    return DeletionStart(
        partitions=tuple(tp for topic in fresh for tp in view.topics.partitions_of(topic)),
        unborn=_by_broker(view, names, lambda b, tp: view.replicas.state(b, tp) is ReplicaState.NON_EXISTENT),
        dead=_by_broker(view, names, is_dead),
        left=_by_broker(view, names, is_left),
        alive=_by_broker(view, names, is_alive),
        held=tuple(held),
    )


def is_given_up(view: ContextView, broker: BrokerId, topic: str) -> bool:
    """Whether the topic is deleted without this broker, which is away: for long enough, or it was so before (D-98)."""
    if broker in view.brokers.registered_ids:
        return False
    return broker in view.deletions.brokers_given_up or view.deletions.has_left_replicas(broker, topic)


def plan_left_replicas(
    view: ContextView, left: Mapping[BrokerId, Iterable[TopicPartition]]
) -> dict[BrokerId, dict[str, LeftReplicas]]:
    """Plan what to record of these replicas: broker -> topic -> replicas (D-98).

    What is recorded already stays: as long as it stands, the broker gets nothing of a newer topic of that name.
    """
    records: dict[BrokerId, dict[str, LeftReplicas]] = {}
    for broker, partitions in left.items():
        by_topic: dict[str, list[int]] = {}
        for tp in partitions:
            if not view.deletions.has_left_replicas(broker, tp.topic):
                by_topic.setdefault(tp.topic, []).append(tp.partition)
        if by_topic:
            records[broker] = {t: LeftReplicas(view.topics.ids.get(t), tuple(of)) for t, of in by_topic.items()}
    return records


def superseded_records(view: ContextView, last: ControllerEpoch) -> dict[BrokerId, list[str]]:
    """Broker -> topics of which another controller gave it replicas of a newer topic of the name (D-100).

    `last`: the epoch of the last controller that kept to the records. Under such a one the broker is in no ISR of the
    newer topic; so it was not, if it is now, or if a later epoch wrote a state.
    """
    found: dict[BrokerId, list[str]] = {}
    for broker, topics in view.deletions.left_replicas.items():
        for topic, left in topics.items():
            if _is_of_present_topic(view, topic, left):
                # Its deletion is not complete.
                continue
            hosted = (tp for tp in view.topics.partitions_of(topic) if broker in view.topics.assignment(tp).replicas)
            states = (state for tp in hosted if (state := view.leaderships.known.get(tp)) is not None)
            if any(broker in state.isr or state.controller_epoch > last for state in states):
                found.setdefault(broker, []).append(topic)
    return found


def withdrawn_records(view: ContextView) -> dict[BrokerId, list[str]]:
    """Broker -> topics that are not to be deleted any more, as somebody removed the marker or deletions are disabled,
    and of which the broker is in an ISR: it may have the only good copy.
    """
    found: dict[BrokerId, list[str]] = {}
    for broker, topics in view.deletions.left_replicas.items():
        for topic, left in topics.items():
            if topic in view.deletions.queued or not _is_of_present_topic(view, topic, left):
                continue
            states = (view.leaderships.known.get(tp) for tp in view.topics.partitions_of(topic))
            if any(state is not None and broker in state.isr for state in states):
                found.setdefault(broker, []).append(topic)
    return found


def _is_of_present_topic(view: ContextView, topic: str, left: LeftReplicas) -> bool:
    return left.topic_id is not None and left.topic_id == view.topics.ids.get(topic)


def deleted_left_replicas(
    view: ContextView, broker: BrokerId, results: Mapping[TopicPartition, ErrorCode]
) -> list[str]:
    """The topics of which the broker has deleted everything that is recorded, by its answer (D-99).

    One that refuses the topic's id has none of its replicas there: klamm's do, whose log is of another topic.
    """
    not_there = {ErrorCode.NONE, ErrorCode.INCONSISTENT_TOPIC_ID}
    return [
        topic
        for topic, left in view.deletions.left_replicas.get(broker, {}).items()
        if all(results.get(TopicPartition(topic, partition)) in not_there for partition in left.partitions)
    ]


def topics_with_offline_replicas(view: ContextView, topics: Iterable[str]) -> set[str]:
    """Topics whose deletion waits for a replica that is not online."""
    return {
        topic
        for topic in topics
        if any(
            broker not in view.brokers.online_for(tp) and not is_given_up(view, broker, topic)
            for tp in view.topics.partitions_of(topic)
            for broker in view.topics.assignment(tp).replicas
        )
    }


def filter_queued(view: ContextView, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> Replicas:
    """The replicas whose topic is queued for deletion; brokers without any are omitted."""
    queued = view.deletions.queued
    kept = {broker: [tp for tp in partitions if tp.topic in queued] for broker, partitions in replicas.items()}
    return {broker: partitions for broker, partitions in kept.items() if partitions}


def deletable_replicas(view: ContextView, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> Replicas:
    """The replicas without those already deleted and those of topics whose deletion has not started."""
    return {
        b: [tp for tp in partitions if view.replicas.state(b, tp) in _MAY_FAIL] for b, partitions in replicas.items()
    }


def _by_broker(
    view: ContextView, topics: Iterable[str], wanted: Callable[[BrokerId, TopicPartition], bool]
) -> Replicas:
    found: Replicas = {}
    for topic in topics:
        for tp in view.topics.partitions_of(topic):
            for broker in view.topics.assignment(tp).replicas:
                if wanted(broker, tp):
                    found.setdefault(broker, []).append(tp)
    return found
