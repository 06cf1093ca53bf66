"""Which partition a record goes to: by the hash of its key as Kafka does, or sticky without a key.

Source: Kafka BuiltInPartitioner; KIP-480 (sticky partitioning), KIP-794 (shorter queues are preferred).
"""

from collections.abc import Mapping, Sequence

from aiokafka.partitioner import murmur2


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key; equal for every client of Kafka that uses the default partitioner."""
    return int((murmur2(key) & 0x7FFFFFFF) % partition_count)


def next_sticky_partition(current: int, partitions: Sequence[int], queued: Mapping[int, int]) -> int:
    """The partition for the next batch of records without key.

    The one with the fewest queued batches; among equals the next after `current` in rotation, so that
    records spread evenly while all leaders keep up, and flow round a leader that does not.
    `partitions` are those that may be used, in order and not empty.
    """
    highest = partitions[-1] + 1
    return min(partitions, key=lambda p: (queued.get(p, 0), (p - current - 1) % highest))
