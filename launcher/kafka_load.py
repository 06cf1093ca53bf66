"""The load of the demonstration on Kafka brokers: idempotent producers, a consumer group, and what came of them.

The clients are aiokafka's, which know nothing of klamm.
"""

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from msgspec import Struct

PRODUCERS: Final = 2
MEMBERS: Final = 2
_PER_STEP: Final = 10
_STEP_S: Final = 0.02
_STOP_S: Final = 10.0
_TIMEOUT_MS: Final = 120_000
"""A producer sends a batch again for so long; longer than any failover here takes."""
_READ_MS: Final = 500


class Outcome(Struct, frozen=True):
    """Counts of records. `unread`: acknowledged, and not seen by the group; `twice`: stored more than once; `failed`:
    given up by a producer. `replaced`: producers that refused to go on.
    """

    acknowledged: int
    lost: int
    twice: int
    failed: int
    unread: int
    replaced: int


class Load:
    """Producers and a group on one topic, until `finish`."""

    def __init__(self, bootstrap: Sequence[str], topic: str, partitions: int) -> None:
        self._bootstrap, self._topic, self._partitions = list(bootstrap), topic, partitions
        self._acknowledged: set[bytes] = set()
        self._failed = self._replaced = 0
        self._seen: Counter[bytes] = Counter()
        self._is_over = self._is_read = False
        self._read_more = asyncio.Event()
        self._producing: list[asyncio.Task[None]] = []

    @property
    def acknowledged(self) -> int:
        return len(self._acknowledged)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        """Within it the group reads, and records are produced until `finish`."""
        # What a client warns of while leaders and coordinators are killed is what is demonstrated.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        async with asyncio.TaskGroup() as tasks:
            reading = [tasks.create_task(self._read()) for _ in range(MEMBERS)]
            self._producing = [tasks.create_task(self._produce(number)) for number in range(PRODUCERS)]
            try:
                yield self
            finally:
                # A consumer that is in the middle of a rebalance may swallow that it is cancelled.
                self._is_over = self._is_read = True
                for task in reading:
                    task.cancel()

    async def finish(self, timeout_s: float) -> Outcome:
        """Stop producing, wait until the group has read everything, and compare with what is stored.

        Raises TimeoutError if a producer does not come to an end; a group that does not is in the outcome.
        """
        self._is_over = True
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*self._producing)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._acknowledged - self._seen.keys():
                    await self._read_more.wait()
                    self._read_more.clear()
        stored = await read_all(self._bootstrap, self._topic, self._partitions)
        return Outcome(
            acknowledged=len(self._acknowledged),
            lost=len(self._acknowledged - stored.keys()),
            twice=sum(count - 1 for count in stored.values()),
            failed=self._failed,
            unread=len(self._acknowledged - self._seen.keys()),
            replaced=self._replaced,
        )

    async def _produce(self, number: int) -> None:
        """A producer that refuses to go on is replaced, as a program would."""
        numbers = itertools.count()
        while not self._is_over:
            try:
                await self._produce_with_one(number, numbers)
            except KafkaError:
                self._replaced += 1

    async def _produce_with_one(self, number: int, numbers: Iterator[int]) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            enable_idempotence=True,
            request_timeout_ms=_TIMEOUT_MS,
            metadata_max_age_ms=5_000,
        )
        under_way: set[asyncio.Task[None]] = set()
        try:
            await producer.start()
            while not self._is_over:
                for sequence in itertools.islice(numbers, _PER_STEP):
                    value = b"%d-%08d" % (number, sequence)
                    future = await producer.send(self._topic, value, partition=sequence % self._partitions)
                    task = asyncio.create_task(self._await(future, value))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                await asyncio.sleep(_STEP_S)
            await producer.flush()
            await asyncio.gather(*under_way)
        finally:
            await stop_client(producer)

    async def _await(self, future: asyncio.Future[object], value: bytes) -> None:
        try:
            await future
        except Exception:  # Whatever its client says of it: not acknowledged.
            self._failed += 1
        else:
            self._acknowledged.add(value)

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._bootstrap,
            group_id=self._topic,
            auto_offset_reset="earliest",
            metadata_max_age_ms=5_000,
        )
        try:
            await consumer.start()
            while not self._is_read:
                for records in (await consumer.getmany(timeout_ms=_READ_MS)).values():
                    self._seen.update(record.value for record in records)
                    self._read_more.set()
        finally:
            await stop_client(consumer)


async def read_all(
    bootstrap: Sequence[str], topic: str, partitions: int, isolation_level: str = "read_uncommitted"
) -> Counter[bytes]:
    """Every record of the topic, and how often it is there; with "read_committed" up to the last stable offsets."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=list(bootstrap), auto_offset_reset="earliest", isolation_level=isolation_level
    )
    try:
        await consumer.start()
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        ends = await consumer.end_offsets(assigned)
        stored: Counter[bytes] = Counter()
        while any([await consumer.position(partition) < ends[partition] for partition in assigned]):
            for records in (await consumer.getmany(timeout_ms=_READ_MS)).values():
                stored.update(record.value for record in records)
        return stored
    finally:
        await consumer.stop()


async def stop_client(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    """Without waiting for long for what it could not send, or for a coordinator."""
    with contextlib.suppress(TimeoutError, KafkaError):
        async with asyncio.timeout(_STOP_S):
            await client.stop()
