"""Plans automatic preferred leader elections.

Source: Kafka KafkaController.checkAndTriggerAutoLeaderRebalance.
"""

from cluster.broker import BrokerId
from cluster.partition import TopicPartition
from controller.decisions.context_view import ContextView

_PER_CENT = 100


def plan_leader_balance(view: ContextView, percentage: int) -> dict[BrokerId, tuple[TopicPartition, ...]]:
    """Broker -> partitions to elect their preferred leader for, for brokers above the imbalance limit.

    The limit is exceeded if strictly more than `percentage` of the partitions with this preferred replica have another
    leader (EP-21). For an offline broker all count, and none can be moved to it (EP-24). Brokers with nothing to move
    are omitted.
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
    """Whether the election would succeed at present, according to the context (EP-22)."""
    return tp.topic in view.topics and broker in view.leaderships[tp].isr and broker in view.online_brokers(tp)
