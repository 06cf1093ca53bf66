"""Divides what a request names by topic, so that it stays below what its receiver takes.

A size is estimated from above, for gRPC as for Kafka's protocol: to encode a request only to measure it would cost more
than to send two. A topic is not divided: it has 200,000 partitions at most.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from cluster.requests.control import LeaderAndIsrTopicState, UpdateMetadataTopicState

LARGEST_BYTES: Final = 64 << 20
"""Half of what an agent takes; of Kafka's brokers `socket.request.max.bytes` is 100 MiB."""
_OF_TOPIC: Final = 64
_OF_PARTITION: Final = 64
_OF_BROKER_ID: Final = 5
_TopicState = TypeVar("_TopicState", LeaderAndIsrTopicState, UpdateMetadataTopicState)


def within(topics: Iterable[_TopicState], bytes_max: int) -> Iterator[tuple[_TopicState, ...]]:
    """Yield the topics in their order, in as few parts as do not exceed the size; at least one, perhaps empty."""
    part: list[_TopicState] = []
    size = 0
    for topic in topics:
        of_topic = _bytes_of(topic)
        if part and size + of_topic > bytes_max:
            yield tuple(part)
            part, size = [], 0
        part.append(topic)
        size += of_topic
    yield tuple(part)


def _bytes_of(topic: LeaderAndIsrTopicState | UpdateMetadataTopicState) -> int:
    ids = sum(len(state.isr) + len(state.replicas) for state in topic.partition_states)
    # The other lists have replicas, too: those that are added or removed, or are offline.
    named = _OF_PARTITION * len(topic.partition_states) + 2 * _OF_BROKER_ID * ids
    return _OF_TOPIC + len(topic.topic_name) + named
