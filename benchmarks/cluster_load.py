"""Produces at a steady pace for `klamm bench cluster`, in a process of its own, and knows what each record waited.

The pace does not follow the answers: a record that waits for a leader does not keep the next one from being sent.
"""

import argparse
import asyncio
from random import Random
from typing import Final, Literal

from msgspec import Struct

from admin.connecting.client import AdminClient
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Delivery, Producer
from benchmarks.children import answer_commands
from cluster.aio.clock import SystemClock
from cluster.metrics.quantiles import quantile

_SIZE: Final = 1024
_NUMBER_BYTES: Final = 8


class LoadCommand(Struct, frozen=True):
    """`take` what was acknowledged since the last command; wait first for what is on its way."""

    do: Literal["take"] = "take"


class LoadMeasures(Struct, frozen=True):
    """Latencies in ms from `send` to acknowledgement by all in-sync replicas, of so many records of 1 KiB."""

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    failed: int


class Load:
    """Sends records to a topic in turns over its partitions."""

    def __init__(self, topology: Topology, topic: str, per_second: float) -> None:
        self._topic, self._pause_s = topic, 1 / per_second
        self._padding = Random(1).randbytes(_SIZE - _NUMBER_BYTES)
        self.producer = Producer(topology, SystemClock(), ProducerOptions(linger_ms=0), self._deliver)
        self._sent_at: dict[int, float] = {}
        self._latencies: list[float] = []
        self._failed = 0
        self._acknowledged = asyncio.Event()

    async def run(self) -> None:
        """Send until it is cancelled."""
        loop = asyncio.get_running_loop()
        began, number = loop.time(), 0
        while True:
            number += 1
            await asyncio.sleep(max(0.0, began + number * self._pause_s - loop.time()))
            self._sent_at[number] = loop.time()
            await self.producer.send(self._topic, None, number.to_bytes(_NUMBER_BYTES) + self._padding)

    async def answer(self, _: LoadCommand) -> LoadMeasures:
        """The latencies since the last call, those of records that wait now included."""
        sent = set(self._sent_at)
        while sent & self._sent_at.keys():
            self._acknowledged.clear()
            await self._acknowledged.wait()
        taken, failed = sorted(self._latencies), self._failed
        self._latencies, self._failed = [], 0
        if not taken:
            return LoadMeasures(0, 0.0, 0.0, 0.0, failed)
        p50, p99 = (round(quantile(taken, q), 1) for q in (0.5, 0.99))
        return LoadMeasures(len(taken), p50, p99, round(taken[-1], 1), failed)

    def _deliver(self, delivery: Delivery) -> None:
        now = asyncio.get_running_loop().time()
        for value in delivery.values:
            assert value is not None, "sent by this load"
            sent_at = self._sent_at.pop(int.from_bytes(value[:_NUMBER_BYTES]))
            if delivery.error is None:
                self._latencies.append((now - sent_at) * 1000)
            else:
                self._failed += 1
        self._acknowledged.set()


async def serve(bootstrap: list[str], topic: str, per_second: float) -> None:
    """Send, and answer commands, until standard input is closed."""
    async with AdminClient(bootstrap) as client:
        load = Load(Topology(client), topic, per_second)
        async with load.producer:
            sending = asyncio.create_task(load.run())
            await answer_commands(LoadCommand, load.answer)
            sending.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--per-second", type=float, required=True)
    given = parser.parse_args()
    asyncio.run(serve(given.bootstrap.split(","), given.topic, given.per_second))
