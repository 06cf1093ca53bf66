"""Bounds the replicas that one call may place, before any is placed (BD-8).

Source: Kafka ReplicationControlManager.validateTotalNumberOfPartitions, which bounds the partitions.
"""

from collections.abc import Iterable
from typing import Final

from cluster.model import bounds
from cluster.model.errors import ApiError
from cluster.requests.topics import NewPartitions, NewTopic

_LARGEST_SHOWN: Final = 10**15


def check_replicas_of_call(field: str, replicas: Iterable[int]) -> None:
    """Raise ApiError if the sum is beyond the bound; `field`: what of the request asks for them."""
    total, bound = sum(replicas), bounds.REPLICAS_OF_CALL
    if not bound.accepts(total):
        placed = f"{total:,}" if total < _LARGEST_SHOWN else bounds.shortened(total)
        why = f"{field}: one call places at most {bound.maximum:,} replicas, not {placed}: use several calls"
        raise ApiError(bound.code, why, field=field, value=total)


def replicas_of_new_topic(topic: NewTopic, default_partitions: int, default_replication_factor: int) -> int:
    if topic.assignments:
        return sum(map(len, topic.assignments.values()))
    partitions = default_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    # Numbers that no topic can have are refused by name when the topic is planned.
    return max(0, partitions) * max(0, factor)


def replicas_of_new_partitions(wanted: NewPartitions, present: int, replication_factor: int) -> int:
    """Count the replicas of new partitions. `present`: the number of partitions that the topic has."""
    given = sum(len(assignment.broker_ids) for assignment in wanted.assignments or ())
    return max(given, (wanted.count - present) * replication_factor, 0)
