"""Idempotent producers of one log: epoch and last five batches of each producer id.

The state is a function of the batches in the log. A snapshot avoids reading them all at the next start; it has a
checksum and is ignored if that is wrong, so it needs no fsync. The format is Kafka's, which holds each producer's last
batch; the earlier ones follow after the end of what Kafka reads. Source: Kafka ProducerStateManager; KIP-98.
"""

import struct
from struct import Struct
from typing import Final

import msgspec

from broker_agent.log.record_batch import MAX_SEQUENCE, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, crc32c
from cluster.model.broker import Offset
from cluster.model.errors import DECODE_ERRORS, ErrorCode, LogAppendError

BATCHES_KEPT: Final = 5

_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEADER: Final = Struct(">hI")  # version, CRC-32C of what follows
_SNAPSHOT_COUNT: Final = Struct(">i")
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta to the first, timestamp; coordinator epoch and first
offset of a transaction, always none.
"""


class ProducerBatch(msgspec.Struct, frozen=True, array_like=True):
    """One batch of a producer; all bounds inclusive, `timestamp` is the batch's largest, in ms."""

    first_sequence: int
    last_sequence: int
    first_offset: Offset
    last_offset: Offset
    timestamp: int


class ProducerEntry(msgspec.Struct):
    """One producer id. `batches` are oldest first and never empty."""

    epoch: int
    batches: list[ProducerBatch]


class ProducerStates:
    """The state of every producer id that wrote to one log."""

    def __init__(self, entries: dict[int, ProducerEntry] | None = None) -> None:
        self._entries = {} if entries is None else entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def highest_id(self) -> int:
        """-1 if there is none."""
        return max(self._entries, default=NO_PRODUCER_ID)

    def last_offsets(self) -> dict[int, Offset]:
        """The last offset of the newest batch of each producer id."""
        return {producer_id: entry.batches[-1].last_offset for producer_id, entry in self._entries.items()}

    def find_duplicate(self, header: BatchHeader) -> ProducerBatch | None:
        """The earlier batch that this one duplicates; None if it may be appended.

        Raises LogAppendError: INVALID_PRODUCER_EPOCH for a fenced producer, OUT_OF_ORDER_SEQUENCE_NUMBER for a gap.
        """
        entry = self._entries.get(header.producer_id)
        if header.producer_id == NO_PRODUCER_ID or entry is None:
            return None
        first, epoch = header.base_sequence, header.producer_epoch
        if epoch == entry.epoch:
            for batch in entry.batches:
                if batch.first_sequence == first and batch.last_sequence == header.last_sequence:
                    return batch
        if epoch < entry.epoch:
            why = f"producer {header.producer_id} has epoch {entry.epoch}, the batch {epoch}"
            raise LogAppendError(ErrorCode.INVALID_PRODUCER_EPOCH, why)
        expected = 0 if epoch > entry.epoch else (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE
        if first != expected:
            why = f"producer {header.producer_id} epoch {epoch}: sequence {expected} expected, {first} found"
            raise LogAppendError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, why)
        return None

    def update(self, header: BatchHeader) -> None:
        """Record an appended batch without validation."""
        if header.producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            return
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = ProducerEntry(header.producer_epoch, [])
            self._entries[header.producer_id] = entry
        entry.batches.append(
            ProducerBatch(
                header.base_sequence,
                header.last_sequence,
                Offset(header.base_offset),
                Offset(header.last_offset),
                header.max_timestamp,
            )
        )
        del entry.batches[:-BATCHES_KEPT]

    def reaches(self, offset: Offset) -> bool:
        """Whether a recorded batch is at or after `offset`, so that a truncation to it affects this state."""
        return any(entry.batches[-1].last_offset >= offset for entry in self._entries.values())

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers whose last batch is older than `expiration_ms`."""
        last_written = {producer_id: entry.batches[-1].timestamp for producer_id, entry in self._entries.items()}
        gone = [pid for pid, at in last_written.items() if at != NO_TIMESTAMP and now_ms - at > expiration_ms]
        for producer_id in gone:
            del self._entries[producer_id]

    def copy(self) -> "ProducerStates":
        """A copy that changes on its own."""
        entries = self._entries.items()
        return ProducerStates({id_: ProducerEntry(entry.epoch, [*entry.batches]) for id_, entry in entries})

    def clear(self) -> None:
        self._entries.clear()

    def encode(self) -> bytes:
        """Encode a snapshot of all producers."""
        entries = (_encode_entry(producer_id, entry) for producer_id, entry in self._entries.items())
        earlier = {producer_id: entry.batches[:-1] for producer_id, entry in self._entries.items()}
        content = _SNAPSHOT_COUNT.pack(len(self._entries)) + b"".join(entries)
        if any(earlier.values()):
            content += msgspec.json.encode(earlier)
        return _SNAPSHOT_HEADER.pack(_SNAPSHOT_VERSION, crc32c(content)) + content


def _encode_entry(producer_id: int, entry: ProducerEntry) -> bytes:
    last = entry.batches[-1]
    delta = last.last_offset - last.first_offset
    return _SNAPSHOT_ENTRY.pack(
        producer_id, entry.epoch, last.last_sequence, last.last_offset, delta, last.timestamp, -1, -1
    )


def decode_snapshot(content: bytes | None) -> ProducerStates | None:
    """Decode a snapshot; None if it is missing or torn."""
    if content is None or len(content) < _SNAPSHOT_HEADER.size + _SNAPSHOT_COUNT.size:
        return None
    version, crc = _SNAPSHOT_HEADER.unpack_from(content)
    if version != _SNAPSHOT_VERSION or crc32c(memoryview(content)[_SNAPSHOT_HEADER.size :]) != crc:
        return None
    try:
        return ProducerStates(_decode_entries(content))
    except (struct.error, *DECODE_ERRORS, KeyError):
        return None


def _decode_entries(content: bytes) -> dict[int, ProducerEntry]:
    (count,) = _SNAPSHOT_COUNT.unpack_from(content, _SNAPSHOT_HEADER.size)
    start = _SNAPSHOT_HEADER.size + _SNAPSHOT_COUNT.size
    end = start + count * _SNAPSHOT_ENTRY.size
    entries = {}
    for producer_id, epoch, sequence, offset, delta, timestamp, *_ in _SNAPSHOT_ENTRY.iter_unpack(content[start:end]):
        if sequence != NO_SEQUENCE:
            first = ((sequence - delta) & MAX_SEQUENCE, sequence)
            batch = ProducerBatch(*first, Offset(offset - delta), Offset(offset), timestamp)
            entries[producer_id] = ProducerEntry(epoch, [batch])
    if content[end:]:
        for producer_id, earlier in msgspec.json.decode(content[end:], type=dict[int, list[ProducerBatch]]).items():
            entries[producer_id].batches[:0] = earlier
    return entries
