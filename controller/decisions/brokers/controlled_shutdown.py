"""A broker wants to leave in order: what moves away from it, and what its absence would cost.

Source: Kafka KafkaController.doControlledShutdown.
"""

from collections.abc import Mapping

from msgspec import Struct

from cluster.broker import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId
from cluster.errors import ErrorCode
from cluster.partition import LeaderAndIsr, TopicPartition
from cluster.requests.elections import ThreatenedPartition
from controller.decisions.context_view import ContextView


def refuse_controlled_shutdown(view: ContextView, broker: BrokerId, broker_epoch: BrokerEpoch) -> ErrorCode:
    """Why a broker is not let go, NONE if it is (CS-2 to CS-5).

    A higher epoch than the known one is good: the broker may hear of its registration first (FN-10).
    """
    known = view.broker_epochs.get(broker)
    if known is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < known:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


class Duties(Struct, frozen=True):
    """Partitions that a broker leads, and those it follows, as far as others have replicas of them too."""

    led: tuple[TopicPartition, ...]
    followed: tuple[TopicPartition, ...]


def duties_of(view: ContextView, broker: BrokerId) -> Duties:
    """What a controlled shutdown acts on (CS-7). A partition with one replica has nowhere to go (CS-14)."""
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    queued, leaderships = view.topics_to_be_deleted, view.leaderships
    for tp in view.partitions_on_broker(broker):
        leadership = leaderships.get(tp)
        if leadership is None or tp.topic in queued or len(view.assignment(tp).replicas) == 1:
            continue
        (led if leadership.leader == broker else followed).append(tp)
    return Duties(tuple(led), tuple(followed))


class Threats(Struct, frozen=True):
    """Partitions that would have no leader any more, and those that would be short of in-sync replicas."""

    leaderless: tuple[ThreatenedPartition, ...]
    below_min_isr: tuple[ThreatenedPartition, ...]


def shutdown_threats(
    before: ContextView, after: ContextView, broker: BrokerId, min_insync_replicas: Mapping[str, int]
) -> Threats:
    """What the absence of the broker costs; `after` is the cluster after its controlled shutdown.

    `min_insync_replicas`: what is in force per topic of this broker.
    """
    leaderless: list[ThreatenedPartition] = []
    below_min_isr: list[ThreatenedPartition] = []
    for tp in before.partitions_on_broker(broker):
        leadership = before.leaderships.get(tp)
        if leadership is None or tp.topic in before.topics_to_be_deleted:
            continue
        if leadership.leader not in before.online_brokers(tp, include_shutting_down=True):
            # It has no leader now, so nothing is lost.
            continue
        threat = _threat(before, broker, tp, leadership, min_insync_replicas[tp.topic])
        if after.leaderships[tp].leader == broker:
            leaderless.append(threat)
        elif threat.isr_after < threat.min_insync_replicas <= len(leadership.isr):
            below_min_isr.append(threat)
    return Threats(tuple(leaderless), tuple(below_min_isr))


def _threat(
    view: ContextView, broker: BrokerId, tp: TopicPartition, leadership: LeaderAndIsr, min_insync_replicas: int
) -> ThreatenedPartition:
    staying = view.online_brokers(tp) - {broker}
    replicas = view.assignment(tp).replicas
    return ThreatenedPartition(
        tp.topic,
        tp.partition,
        isr_after=sum(member in staying for member in leadership.isr),
        # As agents have it: no more in-sync replicas are asked for than there are replicas.
        min_insync_replicas=min(min_insync_replicas, len(replicas)),
    )
