"""A producer of a compacted topic, which writes its keys again and again, and what must be read of them.

Its records are numbered over all partitions. The number of a record decides its key, its partition, and whether it is
a tombstone, so that what is read tells which write of the key it is.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from admin.consuming.record_batches import Record
from admin.consuming.record_history import Acknowledged, Anomaly, HistoryRule, RecordId, Stored, check
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Delivery, Producer
from cluster.aio.clock import SystemClock
from tests.chaos.producers import PARTITIONS, Acknowledgements, id_of, value_of

KEYS: Final = 400
_AT_ONCE: Final = 20
_TOMBSTONE_EACH: Final = 7
"""One of so many writes of a key deletes it."""
_PAUSE_S: Final = 0.15
_REQUEST_MS: Final = 5_000
_DELIVERY_MS: Final = 900_000


def key_of(number: int) -> bytes:
    return f"key-{number % KEYS}".encode()


def is_tombstone(number: int) -> bool:
    return (number // KEYS + number) % _TOMBSTONE_EACH == 0


class KeyedLoad:
    """The producer. `acks` counts its records; every record is delivered before `run` returns, or is in `refusals`."""

    def __init__(self, name: str, topic: str, topology: Topology, acks: Acknowledgements) -> None:
        self._name, self._topic, self._topology, self._acks = name, topic, topology, acks
        acks.sent[name] = 0
        acks.idempotent.add(name)
        self.acknowledged: dict[int, int] = {}
        """By key, the highest number of an acknowledged record with a value."""

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop`, and wait for what is then on its way."""
        options = ProducerOptions(request_timeout_ms=_REQUEST_MS, delivery_timeout_ms=_DELIVERY_MS)
        async with Producer(self._topology, SystemClock(), options, self._deliver) as producer:
            while not stop.is_set():
                for _ in range(_AT_ONCE):
                    number = self._acks.sent[self._name]
                    self._acks.sent[self._name] += 1
                    value = None if is_tombstone(number) else value_of(RecordId(self._name, number))
                    await producer.send(self._topic, key_of(number), value, number % PARTITIONS)
                await asyncio.sleep(_PAUSE_S)

    def _deliver(self, delivery: Delivery) -> None:
        partition = delivery.topic_partition.partition
        if delivery.error is not None:
            self._acks.refusals.append(f"{self._name}: {delivery.error}")
            return
        self._acks.count(partition, len(delivery.values))
        for place, value in enumerate(delivery.values):
            if (id_ := id_of(value)) is not None:
                offset = delivery.base_offset + place if delivery.base_offset >= 0 else delivery.base_offset
                self._acks.records.append(Acknowledged(id_, partition, offset, delivery.attempts > 1))
                key = id_.number % KEYS
                self.acknowledged[key] = max(id_.number, self.acknowledged.get(key, -1))

    def last_sent(self) -> dict[int, int]:
        """The number of the last record of each key: what must be read once everything sent is acknowledged."""
        end = self._acks.sent[self._name]
        return {number % KEYS: number for number in range(max(0, end - KEYS), end)}

    def wrong_values(self, read: Mapping[int, Sequence[Record]], known: Mapping[int, int]) -> list[str]:
        """The keys whose latest value that was read is older than it may be, or is nobody's.

        `known`: by key, the number of a record that was acknowledged before the reading. The latest value is that of
        this record or of one sent later; there is none only if a tombstone is among those.
        """
        latest = {record.key: id_of(record.value) for records in read.values() for record in records}
        wrong = []
        for key, number in known.items():
            found, sent = latest.get(key_of(key)), range(number, self._acks.sent[self._name], KEYS)
            if found is None:
                is_right = any(map(is_tombstone, sent))
            else:
                is_right = found.number in sent and not is_tombstone(found.number)
            if not is_right:
                wrong.append(f"{key_of(key).decode()} is {found}, and {self._name}:{number} was acknowledged")
        return wrong

    def anomalies(self, read: Mapping[int, Sequence[Record]]) -> list[Anomaly]:
        """What `check` finds of records that compaction has left: the last of each key, and whatever else is there."""
        stored = {
            partition: [Stored(record.offset, id_of(record.value)) for record in records if record.value is not None]
            for partition, records in read.items()
        }
        present = {record.id for records in stored.values() for record in records}
        kept = range(self._acks.sent[self._name] - KEYS, self._acks.sent[self._name])
        acks = [ack for ack in self._acks.records if ack.id in present or ack.id.number in kept]
        return [found for found in check(acks, stored, self._acks.producers()) if found.rule is not HistoryRule.GAP]
