"""Reads the replicas of partitions on line and compares them, from the highest log start to the lowest high watermark.

Followers answer as well as leaders: they are asked as debugging consumers. Source: Kafka ReplicaVerificationTool.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from msgspec import Struct

from admin.connecting.client import AdminClient
from admin.consuming.record_batches import BadBatchError, decode_records
from admin.describing.replica_comparison import LastValues, ReplicaDifference, compare_chunks, compare_last_values
from cluster.aio.rate_limiter import RateLimiter
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ApiError, ClusterError, ErrorCode, PeerUnreachableError
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    DEBUGGING_CONSUMER,
    EARLIEST_TIMESTAMP,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
)
from cluster.requests.request import RequestFor, Response

CHUNK_BYTES: Final = 1024 * 1024
"""Of each replica at a time."""
_ONE_BATCH: Final = 1
"""A limit by which a fetch gets the first batch only."""
_TOGETHER_LEAST: Final = 2
_T = TypeVar("_T")


class ReplicaUnreadableError(ClusterError):
    """One replica cannot be read; `why` says it."""

    def __init__(self, broker: BrokerId, why: str) -> None:
        super().__init__(f"broker {broker}: {why}")
        self.broker, self.why = broker, why


class ReplicaRange(Struct, frozen=True):
    """Where a replica begins, and up to where it knows its records to be committed."""

    log_start: Offset
    high_watermark: Offset


class VerifiedPartition(Struct, frozen=True):
    """The outcome of one partition, compared from `from_offset` up to, not including, `to_offset`.

    `unread`: why a replica could not be read, by broker. `replicas`: those that were compared.
    """

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...]
    from_offset: Offset
    to_offset: Offset
    unread: Mapping[BrokerId, str]
    difference: ReplicaDifference | None = None


class ReplicaReader:
    """Reads replicas, no faster than `limiter` lets it. `size`: the bytes read so far."""

    def __init__(
        self, client: AdminClient, addresses: Mapping[BrokerId, str], limiter: RateLimiter, timeout_ms: int
    ) -> None:
        self._client, self._addresses, self._limiter, self._timeout_ms = client, addresses, limiter, timeout_ms
        self.size = 0

    async def range(self, tp: TopicPartition, broker: BrokerId) -> ReplicaRange:
        """Find where the replica begins and ends. Raises ReplicaUnreadableError."""
        item = ListOffsetsPartition(*tp, EARLIEST_TIMESTAMP)
        response = await self._ask(broker, ListOffsetsRequest(DEBUGGING_CONSUMER, (item,)))
        (found,) = response.partitions
        if found.error_code is not ErrorCode.NONE:
            raise ReplicaUnreadableError(broker, found.error_code.name)
        data = await self.read(tp, broker, found.offset, _ONE_BATCH)
        return ReplicaRange(data.log_start_offset, data.high_watermark)

    async def read(
        self, tp: TopicPartition, broker: BrokerId, offset: Offset, limit: int = CHUNK_BYTES
    ) -> FetchPartitionData:
        """Read what the replica has from this offset on; nothing, with the log start, if that is above the offset.

        Raises ReplicaUnreadableError.
        """
        item = FetchPartition(tp.topic, None, tp.partition, offset, limit)
        response = await self._ask(broker, FetchRequest(DEBUGGING_CONSUMER, (item,), 0, 1, limit))
        data: FetchPartitionData = response.partitions[0]
        self.size += len(data.records)
        await self._limiter.pass_bytes(len(data.records))
        is_before_start = data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE and offset < data.log_start_offset
        if data.error_code is not ErrorCode.NONE and not is_before_start:
            raise ReplicaUnreadableError(broker, data.error_code.name)
        return data

    async def _ask(self, broker: BrokerId, request: RequestFor[Response]) -> Response:
        address = self._addresses.get(broker)
        if address is None:
            raise ReplicaUnreadableError(broker, "it is not registered: it does not run, or has no session")
        try:
            return await self._client.ask_broker(address, request, self._timeout_ms)
        except (PeerUnreachableError, ApiError) as error:
            raise ReplicaUnreadableError(broker, str(error)) from error


class PartitionReading:
    """The replicas of one partition while they are compared; one that fails is left out from then on."""

    def __init__(self, reader: ReplicaReader, tp: TopicPartition) -> None:
        self.reader, self.tp = reader, tp
        self.ranges: dict[BrokerId, ReplicaRange] = {}
        self.unread: dict[BrokerId, str] = {}

    @property
    def start(self) -> Offset:
        """The highest log start."""
        return max((r.log_start for r in self.ranges.values()), default=Offset(0))

    @property
    def end(self) -> Offset:
        """The lowest high watermark, at least the start."""
        return max(self.start, min((r.high_watermark for r in self.ranges.values()), default=Offset(0)))

    async def find_ranges(self, brokers: Iterable[BrokerId]) -> None:
        """Ask each replica where it begins and ends."""
        asked = list(brokers)
        found = await asyncio.gather(*(self.guarded(b, self.reader.range(self.tp, b)) for b in asked))
        self.ranges = {b: r for b, r in zip(asked, found, strict=True) if r is not None}

    async def guarded(self, broker: BrokerId, reading: Awaitable[_T]) -> _T | None:
        """Await what is read from a replica; None, and the reason in `unread`, where it cannot be read."""
        try:
            return await reading
        except ReplicaUnreadableError as error:
            self.unread[broker] = error.why
            self.ranges.pop(broker, None)
            return None

    async def read_all(self, offset: Offset) -> dict[BrokerId, FetchPartitionData]:
        """Read every replica from this offset on."""
        brokers = sorted(self.ranges)
        found = await asyncio.gather(*(self.guarded(b, self.reader.read(self.tp, b, offset)) for b in brokers))
        return {b: data for b, data in zip(brokers, found, strict=True) if data is not None}


class Compared(Struct, frozen=True):
    """Up to where replicas were compared, and the first difference."""

    until: Offset
    difference: ReplicaDifference | None = None


Strategy = Callable[[PartitionReading], Awaitable[Compared]]
"""Compares the replicas of a partition between the start and the end of the reading."""


async def compare_bytes(reading: PartitionReading) -> Compared:
    """Compare replicas batch by batch: for `cleanup.policy=delete`, where all have the same bytes."""
    offset, end, is_second_look = reading.start, reading.end, False
    while offset < end and len(reading.ranges) >= _TOGETHER_LEAST:
        read = await reading.read_all(offset)
        if len(read) < _TOGETHER_LEAST:
            break
        moved = max(data.log_start_offset for data in read.values())
        if moved > offset:
            # Retention deletes what is old at one broker before it does at another.
            offset = moved
            continue
        compared = compare_chunks({b: data.records for b, data in read.items()}, offset, end)
        if compared.difference is not None:
            if is_second_look and compared.equal_until == offset:
                return Compared(offset, compared.difference)
            # Read again alone: the log start may have passed it between two answers.
            is_second_look = True
        else:
            is_second_look = False
        offset = compared.equal_until
    return Compared(min(offset, end))


async def compare_compacted(reading: PartitionReading) -> Compared:
    """Compare the last value of each key: for `cleanup.policy=compact`, where each replica is compacted by itself.

    A key that was written again meanwhile may be compacted at one replica and not yet at another: what differs is
    looked at a second time, up to the high watermarks of then.
    """
    compared = await _compare_last_values(reading)
    if compared.difference is not None:
        await reading.find_ranges(sorted(reading.ranges))
        if len(reading.ranges) < _TOGETHER_LEAST:
            return Compared(compared.until)
        compared = await _compare_last_values(reading)
    return compared


async def _compare_last_values(reading: PartitionReading) -> Compared:
    brokers = sorted(reading.ranges)
    end = min(reading.ranges[broker].high_watermark for broker in brokers)
    found = await asyncio.gather(*(reading.guarded(b, _last_values(reading, b, end)) for b in brokers))
    values = {b: of_one for b, of_one in zip(brokers, found, strict=True) if of_one is not None}
    return Compared(end, compare_last_values(values) if len(values) >= _TOGETHER_LEAST else None)


async def _last_values(reading: PartitionReading, broker: BrokerId, end: Offset) -> LastValues:
    """Read one replica to its own high watermark: what comes after `end` may have removed what was before it."""
    values, mine = LastValues(), reading.ranges[broker]
    offset = mine.log_start
    while offset < mine.high_watermark:
        data = await reading.reader.read(reading.tp, broker, offset)
        values.start = max(values.start, data.log_start_offset)
        if data.log_start_offset > offset:
            offset = data.log_start_offset
            continue
        if not data.records:
            break
        try:
            decoded = decode_records(data.records, offset)
        except BadBatchError as error:
            raise ReplicaUnreadableError(broker, str(error)) from error
        for record in decoded.records:
            values.add(record, end)
        offset = decoded.next_offset
    return values


async def verify_partition(
    reader: ReplicaReader, tp: TopicPartition, brokers: Iterable[BrokerId], compare: Strategy
) -> VerifiedPartition:
    """Compare the replicas of one partition on these brokers; those that cannot be read are in the outcome."""
    reading = PartitionReading(reader, tp)
    await reading.find_ranges(brokers)
    start = reading.start
    compared = await compare(reading) if len(reading.ranges) >= _TOGETHER_LEAST else Compared(start)
    return VerifiedPartition(
        *tp,
        tuple(sorted(reading.ranges)),
        start,
        compared.until,
        dict(sorted(reading.unread.items())),
        compared.difference,
    )


def strategy_of(cleanup_policy: str) -> Strategy:
    """Choose how replicas of a topic with this `cleanup.policy` are compared."""
    return compare_compacted if "compact" in cleanup_policy.split(",") else compare_bytes
