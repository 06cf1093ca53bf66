"""Reading a topic as fast as it can be read, measured. Source: Kafka ConsumerPerformance."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from admin.consuming.consumer import Consumer, ConsumerOptions
from admin.consuming.offsets import list_offsets
from admin.describing.topology import Topology
from admin.producing.produce_load import MIB, meanwhile
from cluster.aio.clock import WallClock
from cluster.requests.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

_REPORT_S: Final = 5.0


class ConsumePlan(Struct, frozen=True, kw_only=True):
    """What to read. `records` None: up to the high watermarks seen at the start. `idle_s`: ends when none comes."""

    topic: str
    records: int | None = None
    from_end: bool = False
    idle_s: float = 10.0
    options: ConsumerOptions = ConsumerOptions()


class ConsumeMeasures(Struct, frozen=True):
    """`setup_ms`: until leaders and offsets were found, as the rebalance is of a group; `fetch_…`: of the time after.

    Times of the start and the end in ms since the Unix epoch; `mb`: keys and values, of 2**20 bytes.
    """

    start_ms: int
    end_ms: int
    mb: float
    mb_per_s: float
    records: int
    records_per_s: float
    setup_ms: float
    fetch_ms: float
    fetch_mb_per_s: float
    fetch_records_per_s: float
    is_complete: bool


class ConsumeLoad:
    """One run of a plan. `tell` gets a line of progress every five seconds."""

    def __init__(self, topology: Topology, clock: WallClock, plan: ConsumePlan, tell: Callable[[str], None]) -> None:
        self._topology, self._clock, self._plan, self._tell = topology, clock, plan, tell
        self._records = self._bytes = 0
        self._is_complete = True

    async def run(self, timeout_s: float) -> ConsumeMeasures:
        """Read; `timeout_s`: for leaders and offsets. Raises what the consumer raises."""
        loop, start_ms, began = asyncio.get_running_loop(), self._clock.now_ms(), asyncio.get_running_loop().time()
        plan, partitions = self._plan, await self._topology.partitions(self._plan.topic)
        first = LATEST_TIMESTAMP if plan.from_end else EARLIEST_TIMESTAMP
        starts = await list_offsets(self._topology, plan.topic, dict.fromkeys(partitions, first), timeout_s)
        ends = None
        if plan.records is None:
            latest = dict.fromkeys(partitions, LATEST_TIMESTAMP)
            ends = await list_offsets(self._topology, plan.topic, latest, timeout_s)
        fetching_from = loop.time()
        consumer = Consumer(self._topology, plan.topic, starts, until=ends, options=plan.options)
        async with consumer, meanwhile(self._tell_progress()):
            last = await self._read(consumer, fetching_from)
        return self._measures(start_ms, fetching_from - began, last - fetching_from)

    async def _read(self, consumer: Consumer, began: float) -> float:
        """Take records until there are enough. Returns when the last ones came."""
        loop, last = asyncio.get_running_loop(), began
        async with contextlib.aclosing(consumer.fetched()) as fetched:
            while self._plan.records is None or self._records < self._plan.records:
                try:
                    async with asyncio.timeout(self._plan.idle_s):
                        part = await anext(fetched, None)
                except TimeoutError:
                    self._is_complete = False
                    break
                if part is None:
                    break
                left = None if self._plan.records is None else self._plan.records - self._records
                taken = part.records[:left]
                self._records += len(taken)
                self._bytes += sum([len(r.key or b"") + len(r.value or b"") for r in taken])
                last = loop.time()
        return last

    async def _tell_progress(self) -> None:
        while True:
            records, size = self._records, self._bytes
            await asyncio.sleep(_REPORT_S)
            more = self._records - records
            self._tell(
                f"{self._records} records read, {more / _REPORT_S:.1f} records/s"
                f" ({(self._bytes - size) / MIB / _REPORT_S:.2f} MB/s)"
            )

    def _measures(self, start_ms: int, setup_s: float, fetch_s: float) -> ConsumeMeasures:
        mb, total_s = self._bytes / MIB, setup_s + fetch_s

        def per_s(amount: float, seconds: float) -> float:
            return round(amount / seconds, 2) if seconds else 0.0

        return ConsumeMeasures(
            start_ms=start_ms,
            end_ms=start_ms + round(total_s * 1000),
            mb=round(mb, 2),
            mb_per_s=per_s(mb, total_s),
            records=self._records,
            records_per_s=per_s(self._records, total_s),
            setup_ms=round(setup_s * 1000, 1),
            fetch_ms=round(fetch_s * 1000, 1),
            fetch_mb_per_s=per_s(mb, fetch_s),
            fetch_records_per_s=per_s(self._records, fetch_s),
            is_complete=self._is_complete,
        )
