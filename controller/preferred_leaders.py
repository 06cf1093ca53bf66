"""How far each broker is from leading what it was meant to lead, kept up to date with every change.

Automatic rebalancing asks this every few minutes for every broker, and must not look at all partitions for it
(EP-21). Source: Kafka KafkaController.checkAndTriggerAutoLeaderRebalance, which groups all partitions each time.
"""

from collections import Counter
from collections.abc import Set as AbstractSet

from cluster.broker import BrokerId
from cluster.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition


class PreferredLeaders:
    """Partitions by preferred replica, the first of the assignment; topics queued for deletion left out.

    Invariant: equal to one made from all assignments and leaderships whenever the context is whole. Ordered sets
    are dicts with None values.
    """

    def __init__(self) -> None:
        self._meant_to_lead: Counter[BrokerId] = Counter()
        self._led_by_others: dict[BrokerId, dict[TopicPartition, None]] = {}

    def count(self, preferred: BrokerId, sign: int) -> None:
        """One partition more (+1) or less (-1) has this preferred replica."""
        self._meant_to_lead[preferred] += sign

    def mark(self, preferred: BrokerId, tp: TopicPartition, sign: int) -> None:
        """The partition has a leadership that is (+1), or was until now (-1), not with its preferred replica."""
        if sign > 0:
            self._led_by_others.setdefault(preferred, {})[tp] = None
        else:
            del self._led_by_others[preferred][tp]

    def brokers(self) -> list[BrokerId]:
        """Those that are not leading all they were meant to lead, by id."""
        return sorted(broker for broker, led_by_others in self._led_by_others.items() if led_by_others)

    def meant_to_lead(self, broker: BrokerId) -> int:
        """Of how many partitions the broker is the preferred replica, whether they have a leadership or not."""
        return self._meant_to_lead[broker]

    def led_by_others(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """Of those, the ones with a leadership that is not the broker's, in the order in which they left it."""
        return self._led_by_others.get(broker, {}).keys()

    def __eq__(self, other: object) -> bool:
        """Whether both say the same of every broker, in whatever order it came about."""
        return isinstance(other, PreferredLeaders) and self._as_counts() == other._as_counts()

    __hash__ = None  # type: ignore[assignment]  # It changes all the time.

    def _as_counts(self) -> dict[BrokerId, tuple[int, set[TopicPartition]]]:
        return {b: (size, set(self.led_by_others(b))) for b, size in self._meant_to_lead.items() if size}


def is_imbalanced(assignment: ReplicaAssignment, leadership: LeaderAndIsr) -> bool:
    """Whether somebody else than the preferred replica leads (CX-21).

    A preferred replica that a reassignment is still adding does not count until it is in the ISR.
    """
    if not assignment.replicas:
        return False
    preferred = assignment.replicas[0]
    if preferred in assignment.adding:
        return preferred in leadership.isr
    return leadership.leader != preferred
