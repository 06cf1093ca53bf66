"""Which partitions of a topic are throttled on a broker, by the topic's list of throttled replicas.

Source: Kafka TopicConfigHandler.parseThrottledPartitions, ThrottledReplicaListValidator; KIP-73.
"""

from functools import lru_cache
from typing import Final

from cluster.model.broker import BrokerId

ALL_REPLICAS: Final = "*"


def is_listed(text: str, partition: int, broker: BrokerId) -> bool:
    """Whether the list names the replica of the partition on the broker."""
    listed = _listed(text)
    return listed is None or (partition, broker) in listed


@lru_cache(maxsize=1024)
def _listed(text: str) -> frozenset[tuple[int, int]] | None:
    """The (partition, broker) of a list; None for all."""
    if text.strip() == ALL_REPLICAS:
        return None
    return frozenset((int(partition), int(broker)) for partition, broker in _pairs(text))


def _pairs(text: str) -> list[list[str]]:
    return [pair.strip().split(":") for pair in text.split(",") if pair.strip()]
