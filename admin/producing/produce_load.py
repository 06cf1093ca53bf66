"""A measured load of records on one topic: rates, latencies, and whether what was acknowledged is stored once.

Source: Kafka ProducerPerformance.
"""

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct

from admin.consuming.consumer import Consumer
from admin.consuming.offsets import list_offsets
from admin.consuming.record_history import Acknowledged, HistorySummary, RecordId, Senders, Stored, summarize
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Delivery, Producer
from cluster.aio.clock import WallClock
from cluster.aio.tasks import TaskSet
from cluster.metrics.quantiles import LatencySummary, summarize_latencies
from cluster.model.broker import Offset
from cluster.requests.data import LATEST_TIMESTAMP

MIB: Final = 1024 * 1024
RECORD_SIZE_MIN: Final = 32
"""Room for the id of any record."""
_REPORT_S: Final = 5.0
_TURN: Final = 50
"""After so many records the sender gets its turn."""
_AHEAD_S: Final = 0.001
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class ProducePlan(Struct, frozen=True, kw_only=True):
    """What to send. `throughput`: records/s, None for as many as possible. `warmup`: the first ones are not measured.

    `is_verified`: read the records back; this keeps about 1 KB of memory for each.
    """

    topic: str
    records: int
    record_size: int
    throughput: float | None = None
    warmup: int = 0
    is_verified: bool = False
    options: ProducerOptions = ProducerOptions()


class ProduceMeasures(Struct, frozen=True):
    """Counts of measured records that were acknowledged, and of all that were not; `mb`: of 2**20 bytes;
    `throttled_s`: for how long brokers did not hear the client, as it was over its quota, all answers together.
    """

    records: int
    failed: int
    seconds: float
    records_per_s: float
    mb: float
    mb_per_s: float
    latency_ms: LatencySummary
    batches_retried: int
    idempotent: bool
    throttled_s: float = 0.0
    verified: HistorySummary | None = None


@asynccontextmanager
async def meanwhile(progress: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run this as long as the block lasts."""
    tasks = TaskSet()
    await tasks.__aenter__()
    tasks.start(progress, name="progress")
    try:
        yield
    except BaseException as error:
        await tasks.leave(error)
        raise
    await tasks.leave(None)


class _Window:
    """Counts since the last line of progress."""

    def __init__(self) -> None:
        self.latencies = array("d")

    def line(self, seconds: float, size: int, *, is_throttled: bool) -> str:
        count, found = len(self.latencies), summarize_latencies(self.latencies)
        rate = count / seconds
        self.latencies = array("d")
        return (
            f"{count} records acknowledged, {rate:.1f} records/s ({rate * size / MIB:.2f} MB/s),"
            f" {found.avg:.1f} ms avg latency, {found.max:.1f} ms max latency"
            + (", throttled by quota" if is_throttled else "")
        )


class ProduceLoad:
    """One run of a plan. `tell` gets a line of progress every five seconds."""

    def __init__(self, topology: Topology, clock: WallClock, plan: ProducePlan, tell: Callable[[str], None]) -> None:
        self._topology, self._plan, self._tell = topology, plan, tell
        self._run = uuid4().hex[:8]
        self._padding = bytes(Random(1).choices(_LETTERS, k=plan.record_size))  # noqa: S311 - no secret is drawn.
        self._producer = Producer(topology, clock, plan.options, self._deliver)
        self._sent_at = array("d")
        self._latencies = array("d")
        self._window = _Window()
        self._acknowledged: list[Acknowledged] = []
        self._last_s = 0.0

    async def run(self) -> ProduceMeasures:
        """Send all records and wait for their end. Raises ApiError for a topic that does not exist."""
        loop = asyncio.get_running_loop()
        partitions = dict.fromkeys(await self._topology.partitions(self._plan.topic), LATEST_TIMESTAMP)
        timeout_s = self._plan.options.delivery_timeout_ms / 1000
        starts = await list_offsets(self._topology, self._plan.topic, partitions, timeout_s)
        async with self._producer, meanwhile(self._tell_progress()):
            measured_from = await self._send_all(loop.time())
            await self._producer.flush()
        seconds = max(self._last_s - measured_from, 1e-9) if self._latencies else 0.0
        verified = await self._verify(starts, timeout_s) if self._plan.is_verified else None
        return self._measures(seconds, verified)

    async def _send_all(self, began: float) -> float:
        """Send at the throughput of the plan. Returns the time at which the first measured record was sent."""
        loop, plan, measured_from = asyncio.get_running_loop(), self._plan, began
        for number in range(plan.records):
            now = loop.time()
            if plan.throughput is not None and (ahead := began + number / plan.throughput - now) > _AHEAD_S:
                await asyncio.sleep(ahead)
            elif number % _TURN == 0:
                await asyncio.sleep(0)
            now = loop.time()
            if number == plan.warmup:
                measured_from = now
            self._sent_at.append(now)
            head = RecordId(self._run, number).value()
            await self._producer.send(plan.topic, None, head + self._padding[len(head) :])
        return measured_from

    def _deliver(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            return
        self._last_s = now = asyncio.get_running_loop().time()
        for place, value in enumerate(delivery.values):
            id_ = RecordId.of(value, None)
            assert id_ is not None, "sent by this load"
            latency_ms = (now - self._sent_at[id_.number]) * 1000
            self._window.latencies.append(latency_ms)
            if id_.number >= self._plan.warmup:
                self._latencies.append(latency_ms)
            if self._plan.is_verified:
                known = delivery.base_offset >= 0
                offset = delivery.base_offset + place if known else delivery.base_offset
                resent = delivery.attempts > 1
                self._acknowledged.append(Acknowledged(id_, delivery.topic_partition.partition, offset, resent))

    async def _tell_progress(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(_REPORT_S)
            throttled = self._producer.is_throttled
            self._tell(self._window.line(loop.time() - began, self._plan.record_size, is_throttled=throttled))

    async def _verify(self, starts: Mapping[int, Offset], timeout_s: float) -> HistorySummary:
        """Read what the run has stored. Records of others in between are passed over."""
        topic = self._plan.topic
        ends = await list_offsets(self._topology, topic, dict.fromkeys(starts, LATEST_TIMESTAMP), timeout_s)
        stored: dict[int, list[Stored]] = {partition: [] for partition in starts}
        async with Consumer(self._topology, topic, starts, until=ends) as consumer:
            async for fetched in consumer.fetched():
                for record in fetched.records:
                    id_ = RecordId.of(record.value, None)
                    if id_ is not None and id_.producer == self._run:
                        stored[fetched.partition].append(Stored(record.offset, id_))
        idempotent = frozenset([self._run] if self._producer.is_idempotent else [])
        return summarize(
            self._acknowledged, stored, Senders({self._run: self._plan.records}, idempotent), is_whole=False
        )

    def _measures(self, seconds: float, verified: HistorySummary | None) -> ProduceMeasures:
        count, totals = len(self._latencies), self._producer.totals
        rate = count / seconds if seconds else 0.0
        size = self._plan.record_size / MIB
        return ProduceMeasures(
            records=count,
            failed=totals.failed,
            seconds=round(seconds, 3),
            records_per_s=round(rate, 1),
            mb=round(count * size, 2),
            mb_per_s=round(rate * size, 2),
            latency_ms=summarize_latencies(self._latencies),
            batches_retried=totals.batches_retried,
            idempotent=self._producer.is_idempotent,
            throttled_s=round(totals.throttled_ms / 1000, 3),
            verified=verified,
        )

    @property
    def first_error(self) -> str:
        """The reason why the first record was given up; "" where none was."""
        error = self._producer.totals.first_error
        return "" if error is None else str(error)
