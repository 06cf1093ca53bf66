"""Producers of a round, with acks=all and unique numbered records: klamm's own, and idempotent ones.

klamm's producer has no producer id. The idempotent ones here do what Kafka's does: a batch keeps its sequence number
and its bytes however often it is sent, and one batch per partition is in flight.
"""

import asyncio
import itertools
import time
from collections import defaultdict
from random import Random
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from admin.consuming.record_history import Acknowledged, RecordId, Senders
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.produce_outcomes import RETRIABLE
from admin.producing.producer import Delivery, Producer
from cluster.aio.clock import SystemClock
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.data import ProducePartition, ProduceRequest, ProduceResponse

PARTITIONS: Final = 4
_RECORDS: Final = 4
_PADDING: Final = b"x" * 400
_PAUSE_S: Final = 0.15
_REQUEST_MS: Final = 5_000
_RETRY_S: Final = 0.1
# Kafka's answers to a batch that may have been appended, which the same batch sent again finds out.
_AGAIN: Final = RETRIABLE - {ErrorCode.CORRUPT_MESSAGE}


def value_of(id_: RecordId) -> bytes:
    return id_.value(_PADDING)


def id_of(value: bytes | None) -> RecordId | None:
    """The id in a record's value; None if no producer here makes such a value."""
    return RecordId.of(value, _PADDING)


class Acknowledgements:
    """What has been acknowledged in a round, and when each partition last took something."""

    def __init__(self) -> None:
        self.records: list[Acknowledged] = []
        self.sent: dict[str, int] = {}
        self.idempotent: set[str] = set()
        self.refusals: list[str] = []
        self.counts: dict[int, int] = defaultdict(int)
        self._began = time.monotonic()
        self._last: dict[int, float] = {}
        self._gaps: dict[int, list[tuple[float, float]]] = defaultdict(list)

    def begin(self) -> None:
        """From now on partitions are expected to take records."""
        self._began = time.monotonic()

    def take(self, partition: int, base_offset: int, ids: list[RecordId], *, resent: bool) -> None:
        """A batch was acknowledged."""
        self.records += [Acknowledged(id_, partition, base_offset + n, resent) for n, id_ in enumerate(ids)]
        self.count(partition, len(ids))

    def count(self, partition: int, records: int) -> None:
        """So many records were acknowledged now."""
        self.counts[partition] += records
        now = time.monotonic()
        self._gaps[partition].append((self._last.get(partition, self._began), now))
        self._last[partition] = now

    def producers(self) -> Senders:
        return Senders(dict(self.sent), frozenset(self.idempotent))

    def longest_gap(self) -> tuple[float, float]:
        """Begin and end, in monotonic seconds, of the longest time in which some partition took nothing.

        A partition that takes nothing any more counts until now.
        """
        open_ = [(self._last.get(p, self._began), time.monotonic()) for p in range(PARTITIONS)]
        return max([*itertools.chain.from_iterable(self._gaps.values()), *open_], key=lambda gap: gap[1] - gap[0])


async def run_plain(name: str, topic: str, topology: Topology, acks: Acknowledgements, stop: asyncio.Event) -> None:
    """Send with klamm's own producer until `stop`, and wait for what is then on its way."""

    def deliver(delivery: Delivery) -> None:
        if delivery.error is None:
            ids = [id_ for id_ in map(id_of, delivery.values) if id_ is not None]
            acks.take(delivery.topic_partition.partition, delivery.base_offset, ids, resent=delivery.attempts > 1)
        elif delivery.error.code not in RETRIABLE:
            acks.refusals.append(f"{name}: {delivery.error}")

    options = ProducerOptions(request_timeout_ms=_REQUEST_MS, delivery_timeout_ms=300_000)
    acks.sent[name] = 0
    acks.idempotent.add(name)
    async with Producer(topology, SystemClock(), options, deliver) as producer:
        while not stop.is_set():
            for partition in range(PARTITIONS):
                for _ in range(_RECORDS):
                    number = acks.sent[name]
                    acks.sent[name] += 1
                    await producer.send(topic, None, value_of(RecordId(name, number)), partition)
            await asyncio.sleep(_PAUSE_S)


class IdempotentProducer:
    """One producer id and, per partition, the batches with rising sequence numbers."""

    def __init__(self, name: str, topic: str, topology: Topology, acks: Acknowledgements, random: Random) -> None:
        self._name, self._topic, self._topology, self._acks = name, topic, topology, acks
        self._producer_id = random.randrange(1 << 40, 1 << 50)
        acks.sent[name] = 0
        acks.idempotent.add(name)

    async def run(self, stop: asyncio.Event) -> None:
        """Send to every partition until `stop`, and wait for what is then on its way."""
        await self._topology.partitions(self._topic)
        await asyncio.gather(*(self._run_partition(partition, stop) for partition in range(PARTITIONS)))

    async def _run_partition(self, partition: int, stop: asyncio.Event) -> None:
        sequence = 0
        while not stop.is_set():
            first = self._acks.sent[self._name]
            self._acks.sent[self._name] += _RECORDS
            ids = [RecordId(self._name, first + n) for n in range(_RECORDS)]
            if not await self._deliver(partition, ids, sequence):
                return
            sequence += len(ids)
            await asyncio.sleep(_PAUSE_S)

    async def _deliver(self, partition: int, ids: list[RecordId], sequence: int) -> bool:
        """Send one batch until it is acknowledged; False when it was refused for good, which a round reports."""
        batch = self._encode(ids, sequence)
        for attempt in itertools.count():
            outcome = await self._send(partition, batch)
            if isinstance(outcome, int):
                self._acks.take(partition, outcome, ids, resent=attempt > 0)
                return True
            if isinstance(outcome, ApiError) and outcome.code not in _AGAIN:
                self._acks.refusals.append(f"{self._name}: {self._topic}-{partition}, sequence {sequence}: {outcome}")
                return False
            await asyncio.sleep(_RETRY_S)
            await self._topology.refresh(self._topic)
        raise AssertionError("itertools.count ends never")

    async def _send(self, partition: int, batch: bytes) -> int | ApiError | PeerUnreachableError:
        leader = self._topology.leader(self._topic, partition)
        if leader is None:
            return ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")
        request = ProduceRequest(-1, _REQUEST_MS, (ProducePartition(self._topic, partition, batch),))
        try:
            response = await self._topology.client.rpc.call(leader.address, request, _REQUEST_MS)
        except PeerUnreachableError as error:
            return error
        except ApiError as error:
            # Of the whole call: an overloaded or ending process.
            return ApiError(ErrorCode.NETWORK_EXCEPTION, str(error))
        assert isinstance(response, ProduceResponse)
        result = response.partitions[0]
        if result.error_code is ErrorCode.NONE:
            return int(result.base_offset)
        return ApiError(result.error_code, result.error_message)

    def _encode(self, ids: list[RecordId], sequence: int) -> bytes:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            batch_size=1 << 20,
        )
        for number, id_ in enumerate(ids):
            builder.append(number, int(time.time() * 1000), None, value_of(id_), [])
        return bytes(builder.build())
