"""Topic deletion: which queued topics are finished, can be retried, or can start.

A deletion proceeds with the live replicas and then waits. A topic is finished when every replica has been deleted, so
that none can return with old data. Source: Kafka TopicDeletionManager.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.partition import TopicPartition
from cluster.state_machines import PREVIOUS_REPLICA_STATES, ReplicaState
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
    for topic in sorted(view.topics_to_be_deleted):
        counts = view.replicas_by_state(topic)
        if sum(counts.values()) == counts.get(ReplicaState.DELETION_SUCCESSFUL, 0):
            finish.append(topic)
            continue
        if counts.get(ReplicaState.DELETION_STARTED, 0):
            continue
        if counts.get(ReplicaState.DELETION_INELIGIBLE, 0):
            retry.append(topic)
        if topic not in view.topics_ineligible_for_deletion:
            start.append(topic)
    return DeletionSteps(tuple(finish), tuple(retry), tuple(start))


def failed_replicas(view: ContextView, topics: Iterable[str]) -> Replicas:
    """Replicas of the topics whose deletion failed, to be stopped again before a retry."""
    return _by_broker(
        view, topics, lambda broker, tp: view.replica_state(broker, tp) is ReplicaState.DELETION_INELIGIBLE
    )


class DeletionStart(Struct, frozen=True):
    """`partitions`: of topics that start for the first time; they lose their states. `dead`: replicas that cannot be
    deleted now, which makes the `held` topics ineligible. `alive`: replicas to delete (TD-13).
    """

    partitions: tuple[TopicPartition, ...]
    dead: Replicas
    alive: Replicas
    held: tuple[str, ...]


def plan_start(view: ContextView, topics: Iterable[str]) -> DeletionStart:
    names = tuple(topics)
    fresh = [t for t in names if t not in view.topics_with_deletion_started]
    held: dict[str, None] = {}

    def is_dead(broker: BrokerId, tp: TopicPartition) -> bool:
        if broker in view.online_brokers(tp):
            return False
        held[tp.topic] = None
        return view.replica_state(broker, tp) in _MAY_FAIL

    def is_alive(broker: BrokerId, tp: TopicPartition) -> bool:
        deleted = view.replica_state(broker, tp) is ReplicaState.DELETION_SUCCESSFUL
        return not deleted and broker in view.online_brokers(tp)

    return DeletionStart(
        partitions=tuple(tp for topic in fresh for tp in view.partitions_of(topic)),
        dead=_by_broker(view, names, is_dead),
        alive=_by_broker(view, names, is_alive),
        held=tuple(held),
    )


def topics_being_reassigned(view: ContextView, topics: Iterable[str]) -> set[str]:
    """Topics with an ongoing reassignment: their deletion is postponed until it is complete (D-1)."""
    moving = {tp.topic for tp in view.partitions_being_reassigned}
    return moving.intersection(topics)


def topics_with_offline_replicas(view: ContextView, topics: Iterable[str]) -> set[str]:
    return {
        topic
        for topic in topics
        if any(not view.online_brokers(tp).issuperset(view.assignment(tp).replicas) for tp in view.partitions_of(topic))
    }


def filter_queued(view: ContextView, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> Replicas:
    """The replicas whose topic is queued for deletion; brokers without any are omitted."""
    queued = view.topics_to_be_deleted
    kept = {broker: [tp for tp in partitions if tp.topic in queued] for broker, partitions in replicas.items()}
    return {broker: partitions for broker, partitions in kept.items() if partitions}


def deletable_replicas(view: ContextView, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> Replicas:
    """The replicas without those already deleted and those of topics whose deletion has not started."""
    return {
        b: [tp for tp in partitions if view.replica_state(b, tp) in _MAY_FAIL] for b, partitions in replicas.items()
    }


def _by_broker(
    view: ContextView, topics: Iterable[str], wanted: Callable[[BrokerId, TopicPartition], bool]
) -> Replicas:
    found: Replicas = {}
    for topic in topics:
        for tp in view.partitions_of(topic):
            for broker in view.assignment(tp).replicas:
                if wanted(broker, tp):
                    found.setdefault(broker, []).append(tp)
    return found
