"""A transactional producer of aiokafka's on the topic of a round, and whether what it wrote is whole."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from launcher.demo.kafka_load import read_all, stop_client

_PAUSE_S: Final = 0.05
_ATTEMPT_S: Final = 30.0
_ABORTED_OF: Final = 5
"""Each fifth transaction is given up."""


class Transactions:
    """Each writes its number to two partitions: readers of what is committed see both or none."""

    def __init__(self, bootstrap: Sequence[str], topic: str, partitions: int, security: Mapping[str, Any] = {}) -> None:
        self._bootstrap, self._topic, self._partitions = list(bootstrap), topic, partitions
        self._security = security
        self._number = 0
        self.committed: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self.is_over = False

    async def run(self) -> None:
        """Until `is_over`. After any failure another producer goes on, which fences the one before."""
        while not self.is_over:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_ATTEMPT_S):
                    await self._run_one_producer()

    async def _run_one_producer(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=self._topic,
            transaction_timeout_ms=10_000,
            metadata_max_age_ms=5_000,
            **self._security,
        )
        try:
            await producer.start()
            while not self.is_over:
                self._number += 1
                await self._transaction(producer, b"%08d" % self._number)
                await asyncio.sleep(_PAUSE_S)
        finally:
            await stop_client(producer)

    async def _transaction(self, producer: AIOKafkaProducer, value: bytes) -> None:
        await producer.begin_transaction()
        first = self._number % self._partitions
        for partition in (first, (first + 1) % self._partitions):
            await producer.send_and_wait(self._topic, value, partition=partition)
        if self._number % _ABORTED_OF == 0:
            await producer.abort_transaction()
            self.aborted.add(value)
        else:
            await producer.commit_transaction()
            self.committed.add(value)

    async def problems(self) -> list[str]:
        """Those of what is stored; nothing may be under way any more."""
        # A transaction that nobody ended is aborted after its timeout.
        read = await read_all(self._bootstrap, self._topic, self._partitions, "read_committed", self._security)
        stored = Counter(value for records in read.values() for _, value in records if value is not None)
        found = [f"transaction {v!r} is there {stored[v]} times" for v in sorted(stored) if stored[v] != 2]
        found += [f"committed transaction {v!r} is lost" for v in sorted(self.committed - stored.keys())]
        return found + [f"aborted transaction {v!r} is read" for v in sorted(self.aborted & stored.keys())]
