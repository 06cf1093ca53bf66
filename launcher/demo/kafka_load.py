"""The load on Kafka brokers: idempotent producers and a consumer group.

The clients are aiokafka's, which know nothing of klamm.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from admin.consuming.record_history import Acknowledged, RecordId
from launcher.demo.load import RecordLoad

_STOP_S: Final = 10.0
_TIMEOUT_MS: Final = 120_000
"""A producer sends a batch again for so long; longer than any failover here takes."""
_READ_MS: Final = 500


class KafkaLoad(RecordLoad):
    """Two idempotent producers and a group of two on one topic."""

    producers = members = 2
    per_step = 10

    def __init__(self, bootstrap: Sequence[str], topic: str, partitions: int, security: Mapping[str, Any] = {}) -> None:
        """`security`: the options of aiokafka's clients for it."""
        super().__init__(topic)
        self._security = security
        self._bootstrap, self._partitions = list(bootstrap), partitions
        # What a client warns of while leaders and coordinators are killed is what is demonstrated.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

    async def _produce(self, producer: str) -> None:
        """Send, with another producer where one refuses to continue, as a program would."""
        while not self._is_over:
            # Each has a producer id of its own, and so numbers of its own.
            name = f"{producer}.{self._replaced}"
            self._idempotent.add(name)
            try:
                await self._produce_with_one(name)
            except KafkaError:
                self._replaced += 1

    async def _produce_with_one(self, name: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            enable_idempotence=True,
            request_timeout_ms=_TIMEOUT_MS,
            metadata_max_age_ms=5_000,
            **self._security,
        )
        under_way: set[asyncio.Task[None]] = set()
        try:
            await producer.start()
            async for id_ in self._ids(name):
                partition = id_.number % self._partitions
                future = await producer.send(self.topic, id_.value(), partition=partition)
                task = asyncio.create_task(self._await(future, id_))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await producer.flush()
            await asyncio.gather(*under_way)
        finally:
            await stop_client(producer)

    async def _await(self, future: asyncio.Future[Any], id_: RecordId) -> None:
        try:
            stored = await future
        except Exception:  # Whatever its client says of it: not acknowledged.
            self._failed += 1
        else:
            self._acknowledged.append(Acknowledged(id_, stored.partition, stored.offset))

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self._bootstrap,
            group_id=self.topic,
            auto_offset_reset="earliest",
            metadata_max_age_ms=5_000,
            **self._security,
        )
        try:
            await consumer.start()
            while not self._is_read:
                for records in (await consumer.getmany(timeout_ms=_READ_MS)).values():
                    self._seen.update(RecordId.of(record.value) for record in records)
                    self._seen_more.set()
        finally:
            await stop_client(consumer)

    async def _read_all(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        async with asyncio.timeout(timeout_s):
            return await read_all(self._bootstrap, self.topic, self._partitions, security=self._security)


def security_of(tls: ssl.SSLContext | None) -> dict[str, Any]:
    """The options of a client: with TLS if a context is given."""
    return {} if tls is None else {"security_protocol": "SSL", "ssl_context": tls}


async def read_all(
    bootstrap: Sequence[str],
    topic: str,
    partitions: int,
    isolation_level: str = "read_uncommitted",
    security: Mapping[str, Any] = {},
) -> dict[int, list[tuple[int, bytes | None]]]:
    """Read the offsets and values of a topic, by partition; with "read_committed" up to the last stable offsets."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=list(bootstrap), auto_offset_reset="earliest", isolation_level=isolation_level, **security
    )
    try:
        await consumer.start()
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        ends = await consumer.end_offsets(assigned)
        stored: dict[int, list[tuple[int, bytes | None]]] = {partition: [] for partition in range(partitions)}
        while any([await consumer.position(partition) < ends[partition] for partition in assigned]):
            for where, records in (await consumer.getmany(timeout_ms=_READ_MS)).items():
                stored[where.partition] += [(record.offset, record.value) for record in records]
        return stored
    finally:
        await consumer.stop()


async def stop_client(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    """Stop it without waiting for long for what it could not send, or for a coordinator."""
    with contextlib.suppress(TimeoutError, KafkaError):
        async with asyncio.timeout(_STOP_S):
            await client.stop()
