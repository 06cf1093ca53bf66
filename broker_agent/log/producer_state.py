"""Idempotent producers of one log: epoch and last five batches of each producer id, and its open transaction.

The state is a function of the batches in the log. A snapshot avoids reading them all at the next start; it has a
checksum and is ignored if that is wrong, so it needs no fsync. The format is Kafka's, which holds each producer's last
batch; the earlier ones follow after the end of what Kafka reads. Only what Kafka has written has transactions: clients
of an agent cannot begin one. Source: Kafka ProducerStateManager; KIP-98.
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
"""Producer id, epoch, last sequence, last offset, offset delta to the first, timestamp; coordinator epoch, always none;
first offset of the open transaction.
"""
_NO_OFFSET: Final = -1


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

    def __init__(
        self, entries: dict[int, ProducerEntry] | None = None, open_since: dict[int, Offset] | None = None
    ) -> None:
        self._entries = {} if entries is None else entries
        self.open_since = {} if open_since is None else open_since
        """Producer id -> first offset of its transaction that has no marker yet."""
        self.markers_end = Offset(0)
        """Where the last marker ends, at the highest; 0 if there was none."""
        self.snapshot_end = Offset(0)
        """Where the newest snapshot of these states ends that is in the directory of the log; 0 if there is none."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def highest_id(self) -> int:
        """-1 if there is none."""
        return max(self._entries, default=NO_PRODUCER_ID)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """The first offset of the oldest open transaction; None without any."""
        return min(self.open_since.values(), default=None)

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
        if header.producer_id == NO_PRODUCER_ID:
            return
        if header.is_control and header.record_count > 0:
            self.open_since.pop(header.producer_id, None)
            self.markers_end = Offset(header.last_offset + 1)
        if header.base_sequence == NO_SEQUENCE:
            return
        if header.is_transactional:
            self.open_since.setdefault(header.producer_id, Offset(header.base_offset))
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
        """Whether a recorded batch or marker is at or after `offset`, so that a truncation to it affects this state."""
        return self.markers_end > offset or any(
            entry.batches[-1].last_offset >= offset for entry in self._entries.values()
        )

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers whose last batch is older than `expiration_ms`, unless they have an open transaction."""
        last_written = {producer_id: entry.batches[-1].timestamp for producer_id, entry in self._entries.items()}
        gone = [pid for pid, at in last_written.items() if at != NO_TIMESTAMP and now_ms - at > expiration_ms]
        for producer_id in gone:
            if producer_id not in self.open_since:
                del self._entries[producer_id]

    def copy(self) -> "ProducerStates":
        """A copy that changes on its own."""
        entries = self._entries.items()
        copied = {id_: ProducerEntry(entry.epoch, [*entry.batches]) for id_, entry in entries}
        states = ProducerStates(copied, {**self.open_since})
        states.markers_end = self.markers_end
        return states

    def clear(self) -> None:
        self._entries.clear()
        self.open_since.clear()
        self.markers_end = Offset(0)

    def encode(self) -> bytes:
        """Encode a snapshot of all producers."""
        entries = (
            _encode_entry(producer_id, entry, self.open_since.get(producer_id, _NO_OFFSET))
            for producer_id, entry in self._entries.items()
        )
        earlier = {producer_id: entry.batches[:-1] for producer_id, entry in self._entries.items()}
        content = _SNAPSHOT_COUNT.pack(len(self._entries)) + b"".join(entries)
        if any(earlier.values()):
            content += msgspec.json.encode(earlier)
        return _SNAPSHOT_HEADER.pack(_SNAPSHOT_VERSION, crc32c(content)) + content


def _encode_entry(producer_id: int, entry: ProducerEntry, open_since: int) -> bytes:
    last = entry.batches[-1]
    delta = last.last_offset - last.first_offset
    return _SNAPSHOT_ENTRY.pack(
        producer_id, entry.epoch, last.last_sequence, last.last_offset, delta, last.timestamp, -1, open_since
    )


def decode_snapshot(content: bytes | None) -> ProducerStates | None:
    """Decode a snapshot; None if it is missing or torn."""
    if content is None or len(content) < _SNAPSHOT_HEADER.size + _SNAPSHOT_COUNT.size:
        return None
    version, crc = _SNAPSHOT_HEADER.unpack_from(content)
    if version != _SNAPSHOT_VERSION or crc32c(memoryview(content)[_SNAPSHOT_HEADER.size :]) != crc:
        return None
    try:
        return _decode_entries(content)
    except (struct.error, *DECODE_ERRORS, KeyError):
        return None


def _decode_entries(content: bytes) -> ProducerStates:
    (count,) = _SNAPSHOT_COUNT.unpack_from(content, _SNAPSHOT_HEADER.size)
    start = _SNAPSHOT_HEADER.size + _SNAPSHOT_COUNT.size
    end = start + count * _SNAPSHOT_ENTRY.size
    entries: dict[int, ProducerEntry] = {}
    open_since: dict[int, Offset] = {}
    for producer_id, epoch, sequence, offset, delta, timestamp, _, since in _SNAPSHOT_ENTRY.iter_unpack(
        content[start:end]
    ):
        if sequence != NO_SEQUENCE:
            first = ((sequence - delta) & MAX_SEQUENCE, sequence)
            batch = ProducerBatch(*first, Offset(offset - delta), Offset(offset), timestamp)
            entries[producer_id] = ProducerEntry(epoch, [batch])
            if since != _NO_OFFSET:
                open_since[producer_id] = Offset(since)
    if content[end:]:
        for producer_id, earlier in msgspec.json.decode(content[end:], type=dict[int, list[ProducerBatch]]).items():
            entries[producer_id].batches[:0] = earlier
    return ProducerStates(entries, open_since)
