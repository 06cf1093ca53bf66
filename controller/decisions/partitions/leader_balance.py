"""Plans automatic preferred leader elections.

Source: Kafka KafkaController.checkAndTriggerAutoLeaderRebalance; the limit of a run is KRaft's
(ReplicationControlManager.maybeBalancePartitionLeaders).
"""

from itertools import islice

from msgspec import Struct

from cluster.model.broker import BrokerId
from cluster.model.partition import TopicPartition
from controller.decisions.context_view import ContextView

_PER_CENT = 100


class BalanceRound(Struct, frozen=True):
    """Holds what is left of the runs before. `brokers`: they crossed the imbalance limit and do not lead all their
    partitions yet. `failed`: elections that failed since the last pause of a whole interval; they wait for the next
    one.
    """

    brokers: frozenset[BrokerId] = frozenset()
    failed: frozenset[TopicPartition] = frozenset()


class LeaderBalance(Struct, frozen=True):
    """One run. `moves`: broker -> partitions to elect it for. `brokers`: of the round. `has_more`: whether the run is
    at its limit, so that the next one follows soon.
    """

    moves: dict[BrokerId, tuple[TopicPartition, ...]]
    brokers: frozenset[BrokerId]
    has_more: bool


def plan_leader_balance(
    view: ContextView, percentage: int, begun: BalanceRound = BalanceRound(), *, elections_max: int
) -> LeaderBalance:
    """Plan at most `elections_max` elections for live brokers above the imbalance limit, and for those of `begun`,
    which were above it and would otherwise keep a remainder below it for ever (D-104).

    The limit is exceeded if strictly more than `percentage` of the partitions with this preferred replica have another
    leader (EP-21). For an offline broker all count, and none can be moved to it (EP-24). Brokers with nothing to move
    have no entry in `moves`.
    """
    preferred = view.leaderships.preferred_leaders
    moves: dict[BrokerId, tuple[TopicPartition, ...]] = {}
    brokers: set[BrokerId] = set()
    room, has_more = elections_max, False
    for broker in preferred.brokers():
        led_by_others = preferred.led_by_others(broker)
        is_above = len(led_by_others) * _PER_CENT > percentage * preferred.meant_to_lead(broker)
        if broker not in view.brokers.live_ids or not (is_above or broker in begun.brokers):
            continue
        brokers.add(broker)
        able = (tp for tp in led_by_others if tp not in begun.failed and _could_lead(view, broker, tp))
        ready = tuple(islice(able, room + 1))
        has_more |= len(ready) > room
        if ready[:room]:
            moves[broker] = ready[:room]
            room -= len(moves[broker])
    return LeaderBalance(moves, frozenset(brokers), has_more)


def _could_lead(view: ContextView, broker: BrokerId, tp: TopicPartition) -> bool:
    """Whether the election would succeed at present, according to the context (EP-22)."""
    known = view.leaderships.known
    return tp.topic in view.topics.names and broker in known[tp].isr and broker in view.brokers.online_for(tp)
