"""Index of partitions by preferred leader, for the imbalance check; updated with every change.

The check runs every few minutes for every broker and must not scan all partitions (EP-21). Source: Kafka
KafkaController.checkAndTriggerAutoLeaderRebalance, which groups all partitions each time.
"""

from collections import Counter
from collections.abc import Set as AbstractSet

from cluster.model.broker import BrokerId
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition


class PreferredLeaders:
    """Partitions by preferred replica, which is the first of the assignment; without topics queued for deletion.

    Invariant: equal to an index built from all assignments and leaderships, whenever the context is consistent. Ordered
    sets are dicts with None values.
    """

    def __init__(self) -> None:
        self._meant_to_lead: Counter[BrokerId] = Counter()
        self._led_by_others: dict[BrokerId, dict[TopicPartition, None]] = {}

    def count(self, preferred: BrokerId, sign: int) -> None:
        """Add (+1) or remove (-1) a partition that has this preferred replica."""
        self._meant_to_lead[preferred] += sign

    def mark(self, preferred: BrokerId, tp: TopicPartition, sign: int) -> None:
        """Add (+1) or remove (-1) a partition whose leader is not its preferred replica."""
        if sign > 0:
            self._led_by_others.setdefault(preferred, {})[tp] = None
        else:
            del self._led_by_others[preferred][tp]

    def brokers(self) -> list[BrokerId]:
        """Brokers that do not lead all partitions they are the preferred replica of, sorted by id."""
        return sorted(broker for broker, led_by_others in self._led_by_others.items() if led_by_others)

    def meant_to_lead(self, broker: BrokerId) -> int:
        """Number of partitions that the broker is the preferred replica of, with a leadership or without."""
        return self._meant_to_lead[broker]

    def led_by_others(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """Those of them whose leader is not the broker, in the order in which it lost them."""
        return self._led_by_others.get(broker, {}).keys()

    def __eq__(self, other: object) -> bool:
        """Equal contents, whatever the order."""
        return isinstance(other, PreferredLeaders) and self._as_counts() == other._as_counts()

    __hash__ = None  # type: ignore[assignment]  # It changes all the time.

    def _as_counts(self) -> dict[BrokerId, tuple[int, set[TopicPartition]]]:
        return {b: (size, set(self.led_by_others(b))) for b, size in self._meant_to_lead.items() if size}


def is_imbalanced(assignment: ReplicaAssignment, leadership: LeaderAndIsr) -> bool:
    """Whether the leader is not the preferred replica (CX-21).

    A preferred replica that a reassignment is still adding does not count until it is in the ISR.
    """
    if not assignment.replicas:
        return False
    preferred = assignment.replicas[0]
    if preferred in assignment.adding:
        return preferred in leadership.isr
    return leadership.leader != preferred
