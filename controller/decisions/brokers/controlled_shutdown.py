"""Controlled shutdown of a broker: which partitions move, and what its absence would break.

Source: Kafka KafkaController.doControlledShutdown.
"""

from collections.abc import Mapping

from msgspec import Struct

from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.elections import ThreatenedPartition
from controller.decisions.context_view import ContextView


def refuse_controlled_shutdown(view: ContextView, broker: BrokerId, broker_epoch: BrokerEpoch) -> ErrorCode:
    """The error that refuses a controlled shutdown, NONE if it is accepted (CS-2 to CS-5).

    An epoch above the known one is accepted: the broker may learn of its registration first (FN-10).
    """
    known = view.brokers.epochs.get(broker)
    if known is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < known:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


class Duties(Struct, frozen=True):
    """Partitions that a broker leads, and those it follows, if they have other replicas."""

    led: tuple[TopicPartition, ...]
    followed: tuple[TopicPartition, ...]


def duties_of(view: ContextView, broker: BrokerId) -> Duties:
    """The partitions that a controlled shutdown acts on (CS-7). One with a single replica cannot move (CS-14)."""
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    queued, leaderships = view.deletions.queued, view.leaderships.known
    for tp in view.topics.partitions_on(broker):
        leadership = leaderships.get(tp)
        if leadership is None or tp.topic in queued or len(view.topics.assignment(tp).replicas) == 1:
            continue
        (led if leadership.leader == broker else followed).append(tp)
    return Duties(tuple(led), tuple(followed))


class Threats(Struct, frozen=True):
    """Partitions that would lose their leader, and those that would fall below min.insync.replicas."""

    leaderless: tuple[ThreatenedPartition, ...]
    below_min_isr: tuple[ThreatenedPartition, ...]


def shutdown_threats(
    before: ContextView, after: ContextView, broker: BrokerId, min_insync_replicas: Mapping[str, int]
) -> Threats:
    """Find what the absence of the broker breaks; `after` is the cluster after its controlled shutdown.

    `min_insync_replicas`: the value in force for each topic of the broker.
    """
    leaderless: list[ThreatenedPartition] = []
    below_min_isr: list[ThreatenedPartition] = []
    for tp in before.topics.partitions_on(broker):
        leadership = before.leaderships.known.get(tp)
        if leadership is None or tp.topic in before.deletions.queued:
            continue
        if leadership.leader not in before.brokers.online_for(tp, include_shutting_down=True):
            # It has no leader at present, so nothing is lost.
            continue
        threat = _threat(before, broker, tp, leadership, min_insync_replicas[tp.topic])
        if after.leaderships.known[tp].leader == broker:
            leaderless.append(threat)
        elif threat.isr_after < threat.min_insync_replicas <= len(leadership.isr):
            below_min_isr.append(threat)
    return Threats(tuple(leaderless), tuple(below_min_isr))


def _threat(
    view: ContextView, broker: BrokerId, tp: TopicPartition, leadership: LeaderAndIsr, min_insync_replicas: int
) -> ThreatenedPartition:
    staying = view.brokers.online_for(tp) - {broker}
    replicas = view.topics.assignment(tp).replicas
    return ThreatenedPartition(
        tp.topic,
        tp.partition,
        isr_after=sum(member in staying for member in leadership.isr),
        # As agents do: the limit is never above the number of replicas.
        min_insync_replicas=min(min_insync_replicas, len(replicas)),
    )
