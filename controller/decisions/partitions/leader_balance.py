"""Which partitions automatic rebalancing gives back to their preferred replicas.

Source: Kafka KafkaController.checkAndTriggerAutoLeaderRebalance.
"""

from cluster.broker import BrokerId
from cluster.partition import TopicPartition
from controller.decisions.context_view import ContextView

_PER_CENT = 100


def plan_leader_balance(view: ContextView, percentage: int) -> dict[BrokerId, tuple[TopicPartition, ...]]:
    """Broker -> the partitions that it should lead again, for brokers with too many of theirs led by others.

    Too many are strictly more than `percentage` of those that the broker is the preferred replica of (EP-21).
    Of a broker that is down all count, and none can be given back (EP-24). Brokers with nothing to move are left out.
    """
    preferred = view.preferred_leaders
    moves: dict[BrokerId, tuple[TopicPartition, ...]] = {}
    for broker in preferred.brokers():
        led_by_others = preferred.led_by_others(broker)
        if len(led_by_others) * _PER_CENT <= percentage * preferred.meant_to_lead(broker):
            continue
        if broker not in view.live_broker_ids:
            continue
        ready = tuple(tp for tp in led_by_others if _could_lead(view, broker, tp))
        if ready:
            moves[broker] = ready
    return moves


def _could_lead(view: ContextView, broker: BrokerId, tp: TopicPartition) -> bool:
    """Whether the election would succeed right now, as far as memory can tell (EP-22)."""
    return tp.topic in view.topics and broker in view.leaderships[tp].isr and broker in view.online_brokers(tp)
