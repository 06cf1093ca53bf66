"""Chooses the partitions of a description that are not as they should be.

Source: Kafka TopicCommand, PartitionDescription.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from cluster.model.broker import NO_LEADER
from cluster.model.errors import ErrorCode
from cluster.requests.plans import DescribedPartition
from cluster.requests.topics import DescribedTopic


class PartitionFilter(StrEnum):
    """Names a filter of partitions as the option of kafka-topics does, without its ending `-partitions`."""

    UNDER_REPLICATED = "under-replicated"
    UNAVAILABLE = "unavailable"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"


NEED_MIN_ISR: Final = frozenset({PartitionFilter.UNDER_MIN_ISR, PartitionFilter.AT_MIN_ISR})
"""The filters that need `min.insync.replicas`, which the metadata of brokers does not have."""


def is_under_replicated(p: DescribedPartition) -> bool:
    """Whether more replicas are out of sync than a reassignment adds: those it adds begin out of sync."""
    return len(p.isr) < len(p.replicas) - len(p.adding_replicas)


def wanted_in_sync(topic: DescribedTopic, p: DescribedPartition) -> int:
    """The value of `min.insync.replicas` in force, but at most the number of replicas."""
    return min(topic.min_insync_replicas, len(p.replicas))


def chosen(topics: Sequence[DescribedTopic], filters: Collection[PartitionFilter]) -> list[DescribedTopic]:
    """Choose the topics and partitions to which any filter applies; without filters, all.

    A topic with an error is kept, a topic without a chosen partition is not.
    """
    if not filters:
        return list(topics)
    found = []
    for topic in topics:
        partitions = tuple(p for p in topic.partitions if any(_CHECKS[f](topic, p) for f in filters))
        if partitions or topic.error_code is not ErrorCode.NONE:
            found.append(replace(topic, partitions=partitions))
    return found


_CHECKS: Final[Mapping[PartitionFilter, Callable[[DescribedTopic, DescribedPartition], bool]]] = {
    PartitionFilter.UNDER_REPLICATED: lambda _, p: is_under_replicated(p),
    # A leader that is not live counts as offline too, until the controller has elected another.
    PartitionFilter.UNAVAILABLE: lambda _, p: p.leader == NO_LEADER or p.leader in p.offline_replicas,
    PartitionFilter.UNDER_MIN_ISR: lambda topic, p: len(p.isr) < wanted_in_sync(topic, p),
    PartitionFilter.AT_MIN_ISR: lambda topic, p: len(p.isr) == wanted_in_sync(topic, p),
}
