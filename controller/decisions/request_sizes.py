"""Divides what a request names, by topic or by replica that is stopped, so that it stays below what its receiver takes.

A size is estimated from above, for gRPC as for Kafka's protocol: to encode a request only to measure it would cost more
than to send two. A topic is not divided: it has 200,000 partitions at most.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from cluster.requests.control import LeaderAndIsrTopicState, StopReplicaPartitionState, UpdateMetadataTopicState

LARGEST_BYTES: Final = 64 << 20
"""Half of what an agent takes; of Kafka's brokers `socket.request.max.bytes` is 100 MiB."""
_OF_TOPIC: Final = 64
_OF_PARTITION: Final = 64
_OF_BROKER_ID: Final = 5
_Named = TypeVar("_Named", LeaderAndIsrTopicState, UpdateMetadataTopicState, StopReplicaPartitionState)


def within(named: Iterable[_Named], bytes_max: int) -> Iterator[tuple[_Named, ...]]:
    """Yield what is named in its order, in as few parts as do not exceed the size; at least one, perhaps empty."""
    part: list[_Named] = []
    size = 0
    for item in named:
        of_item = _bytes_of(item)
        if part and size + of_item > bytes_max:
            yield tuple(part)
            part, size = [], 0
        part.append(item)
        size += of_item
    yield tuple(part)


def _bytes_of(named: LeaderAndIsrTopicState | UpdateMetadataTopicState | StopReplicaPartitionState) -> int:
    if isinstance(named, StopReplicaPartitionState):
        return _OF_PARTITION + len(named.topic_name)
    states = named.partition_states
    ids = sum([len(state.isr) + len(state.replicas) for state in states])
    # The other lists have replicas, too: those that are added or removed, or are offline.
    return _OF_TOPIC + len(named.topic_name) + _OF_PARTITION * len(states) + 2 * _OF_BROKER_ID * ids
