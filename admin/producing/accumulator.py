"""Collects the records of a producer: one queue of batches for each partition, and which batches are due.

It does no I/O; `now` is the event loop's time in seconds.
Source: Kafka RecordAccumulator, BuiltInPartitioner.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from random import Random

from aiokafka.partitioner import murmur2
from msgspec import Struct

from admin.consuming.record_batches import BatchBuilder, Headers, Record, build_batches, decode_records, with_producer
from admin.producing.idempotence import BatchNumber, PartitionNumbers, after
from cluster.model.bounds import LARGEST_BATCH
from cluster.model.broker import Offset
from cluster.model.compression import CompressionCodec
from cluster.model.errors import ClusterError
from cluster.model.partition import TopicPartition

_RECORD_OVERHEAD = 32


class ProducerOptions(Struct, frozen=True, kw_only=True):
    """Holds Kafka's producer settings under its names; times are in ms, sizes in bytes. `acks`: 0, 1 or -1 (all).

    `batch_size`: before compression. `enable_idempotence`: None for on, unless another setting contradicts.
    `max_in_flight_requests_per_connection`: of an idempotent producer, the full batches of one partition whose answers
    are awaited at once; of any other it is one, which keeps their order.
    """

    acks: int = -1
    enable_idempotence: bool | None = None
    max_in_flight_requests_per_connection: int = 5
    compression_type: CompressionCodec = CompressionCodec.NONE
    batch_size: int = 262_144
    linger_ms: int = 5
    buffer_memory: int = 33_554_432
    max_request_size: int = 1_048_576
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100


class AccumulatedBatch:
    """Collects a batch of records for one partition. `encoded` is None while records may still be added.

    `may_be_stored`: whether an attempt has ended without an answer that says so or the contrary.
    """

    def __init__(
        self, *, deadline: float, due: float, batch_size: int, codec: CompressionCodec = CompressionCodec.NONE
    ) -> None:
        self.deadline, self.due, self._codec = deadline, due, codec
        self.encoded: bytes | None = None
        self.values: list[bytes | None] = []
        self.attempts = 0
        self.number: BatchNumber | None = None
        self.is_on_wire = False
        self.may_be_stored = self.is_of_doubtful = False
        self.last_error: ClusterError | None = None
        self.memory = 0
        self._builder = BatchBuilder(batch_size, codec)

    @property
    def count(self) -> int:
        return len(self.values)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> bool:
        """Add a record; False when the batch is closed or full."""
        if self.encoded is not None or not self._builder.append(timestamp, key, value, headers):
            return False
        self.values.append(value)
        self.memory += record_memory(key, value, headers)
        return True

    def close(self) -> bytes:
        """Encode the batch for sending; no record can be added afterwards."""
        if self.encoded is None:
            self.encoded = self._builder.build()
        return self.encoded

    def to_send(self) -> bytes:
        """Encode the batch with its number, if it has one."""
        encoded = self.close()
        return encoded if self.number is None else with_producer(encoded, *self.number.producer, self.number.first)

    def split(self) -> "list[AccumulatedBatch]":
        """Split a batch that was too large for its leader into halves, in order. It must have at least two records.

        They keep the sequences of its records.
        """
        assert self.count > 1, "a batch of one record cannot be split"
        records = decode_records(self.close(), Offset(0)).records
        middle = len(records) // 2
        return [self._part(records[:middle], 0), self._part(records[middle:], middle)]

    def _part(self, records: Sequence[Record], start: int) -> "AccumulatedBatch":
        part = AccumulatedBatch(deadline=self.deadline, due=self.due, batch_size=LARGEST_BATCH, codec=self._codec)
        (part.encoded,) = build_batches(records, LARGEST_BATCH, self._codec)
        part.values = [r.value for r in records]
        part.memory = sum(record_memory(r.key, r.value, r.headers) for r in records)
        part.attempts, part.may_be_stored = self.attempts, self.may_be_stored
        part.is_of_doubtful = self.may_be_stored
        if self.number is not None:
            part.number = BatchNumber(self.number.producer, after(self.number.first, start), self.number.ordinal)
        return part


class PartitionQueue:
    """Holds the batches of one partition, oldest first: some on the wire, then those that wait."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.batches: deque[AccumulatedBatch] = deque()
        self.numbers = PartitionNumbers()
        self.not_before = 0.0

    def next_batch(self, leader: Hashable, in_flight: int) -> AccumulatedBatch | None:
        """The batch to send next to this leader, at most `in_flight` of them at once; None while none may be sent.

        A second one is sent before the answer to the first only if the leader refuses it should it arrive before, and
        if the first is on its first way: batches that are sent again go one by one. Source: Kafka
        RecordAccumulator.shouldStopDrainBatchesForPartition.
        """
        first = self.batches[0]
        if not first.is_on_wire:
            return first
        numbers = self.numbers
        is_known = leader is not None and numbers.known_to == leader
        # The leader knows the last five by their numbers, whether or not those behind the first are acknowledged.
        if first.number is None or numbers.taken - first.number.ordinal >= in_flight:
            return None
        if not is_known or numbers.needs_new_epoch or numbers.unresolved is not None:
            return None
        for batch in islice(self.batches, in_flight):
            if not batch.is_on_wire:
                # One that is not full gets more records meanwhile.
                return batch if batch.number is None and (batch is not self.batches[-1]) else None
            if batch.last_error is not None or batch.attempts > 1:
                return None
        return None

    def due_at(self, flushing: bool) -> float:
        """The time at which the first batch may be sent. A batch behind it means that it is full."""
        first = self.batches[0]
        waits_for_more = first.encoded is None and len(self.batches) == 1 and not flushing
        return max(self.not_before, first.due) if waits_for_more else self.not_before


class Accumulator:
    """Holds the queues of a producer, one for each partition. `has_leader`: whether a partition has a known leader.

    `random` chooses the first partition of a topic for records without a key, so that short runs do not all use the
    same one.
    """

    def __init__(self, options: ProducerOptions, has_leader: Callable[[TopicPartition], bool], random: Random) -> None:
        self._options = options
        self._has_leader = has_leader
        self._random = random
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._sticky: dict[str, int] = {}
        self.memory = 0
        """The bytes of all records that are neither acknowledged nor given up."""

    def append(
        self,
        topic: str,
        partitions: Sequence[int],
        partition: int | None,
        record: tuple[bytes | None, bytes | None, Headers],
        *,
        timestamp: int,
        now: float,
    ) -> bool:
        """Add a (key, value, headers) to `partition`, or to the one its key hashes to, or to the sticky one.

        Returns whether a batch was begun or became full: then the sender must look for work.
        """
        key, value, headers = record
        sticky = partition is None and key is None
        if partition is None:
            partition = (
                self._sticky_partition(topic, partitions) if key is None else partition_for_key(key, len(partitions))
            )
        queue = self._queue(TopicPartition(topic, partition))
        self.memory += record_memory(key, value, headers)
        if queue.batches and queue.batches[-1].append(timestamp, key, value, headers):
            return False
        if sticky:
            queue = self._move_on(topic, partitions)
            if queue.batches and queue.batches[-1].append(timestamp, key, value, headers):
                return True
        queue.batches.append(
            AccumulatedBatch(
                deadline=now + self._options.delivery_timeout_ms / 1000,
                due=now + self._options.linger_ms / 1000,
                batch_size=self._options.batch_size,
                codec=self._options.compression_type,
            )
        )
        fitted = queue.batches[-1].append(timestamp, key, value, headers)
        assert fitted, "the first record of a batch always fits"
        return True

    def waiting(self) -> list[PartitionQueue]:
        """The queues with a batch that is not on the wire, in the order in which partitions were first used."""
        return [q for q in self._queues.values() if not all(batch.is_on_wire for batch in q.batches)]

    @property
    def is_empty(self) -> bool:
        return not any(q.batches for q in self._queues.values())

    def remove(self, queue: PartitionQueue, batch: AccumulatedBatch) -> None:
        """Remove a batch that was acknowledged or given up."""
        queue.batches.remove(batch)
        self.memory -= batch.memory

    def split(self, queue: PartitionQueue, batch: AccumulatedBatch) -> None:
        """Replace a batch by its parts."""
        index = queue.batches.index(batch)
        del queue.batches[index]
        for part in reversed(batch.split()):
            queue.batches.insert(index, part)

    def _queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
        return queue

    def _sticky_partition(self, topic: str, partitions: Sequence[int]) -> int:
        if topic not in self._sticky:
            self._move_on(topic, partitions)
        return self._sticky[topic]

    def _move_on(self, topic: str, partitions: Sequence[int]) -> PartitionQueue:
        """Choose the next partition for records without key: the open batch is full or has left."""
        led = [p for p in partitions if self._has_leader(TopicPartition(topic, p))]
        queued = {p: len(q.batches) for p in partitions if (q := self._queues.get(TopicPartition(topic, p)))}
        current = self._sticky[topic] if topic in self._sticky else self._random.choice(partitions)
        self._sticky[topic] = next_sticky_partition(current, led if led else partitions, queued)
        return self._queue(TopicPartition(topic, self._sticky[topic]))


def record_memory(key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
    """The number of bytes that a record counts against `buffer.memory` and `max.request.size`."""
    contents = (key, value, *(part for name, of in headers for part in (name, of)))
    return _RECORD_OVERHEAD + sum(len(part) for part in contents if part is not None)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Compute the partition of a key, as every client with Kafka's default partitioner does."""
    return int((murmur2(key) & 0x7FFFFFFF) % partition_count)


def next_sticky_partition(current: int, partitions: Sequence[int], queued: Mapping[int, int]) -> int:
    """Choose the partition for the next batch of records without a key.

    It is the one with the fewest queued batches; among equals the next after `current` in rotation. So records spread
    evenly while all leaders keep up, and avoid a leader that does not. `partitions` are those that may be used, in
    order and not empty. Source: Kafka BuiltInPartitioner; KIP-480, KIP-794.
    """
    highest = partitions[-1] + 1
    return min(partitions, key=lambda p: (queued.get(p, 0), (p - current - 1) % highest))
