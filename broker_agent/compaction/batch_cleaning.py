"""What stays of one stored batch when its log is cleaned. Pure.

Offsets, timestamps, leader epoch, producer and sequence of what stays are those that were written. Source: Kafka
Cleaner.cleanInto, MemoryRecords.filterTo; KIP-534 for tombstones.
"""

from array import array
from collections.abc import Iterator, Mapping

from msgspec import Struct

from broker_agent.compaction.offset_map import OffsetMap
from broker_agent.compaction.stored_records import (
    StoredRecord,
    UncleanableBatchError,
    read_records,
    read_run,
    with_base_moved,
)
from broker_agent.decisions.cleaned_transactions import CleanedTransactions
from broker_agent.log.record_batch import (
    HEADER_SIZE,
    NO_PRODUCER_ID,
    BatchHeader,
    encode_emptied,
    encode_with_records,
    with_delete_horizon,
)
from cluster.model.bounds import LARGEST_BATCH
from cluster.model.broker import Offset
from cluster.model.compression import CompressionError, compress, decompress, find_codec


class CleaningRound(Struct, frozen=True):
    """What decides about every batch of one cleaning of a log. Times in ms.

    `producer_ends`: producer id -> last offset of its newest batch, which holds the sequence that it continues.
    """

    newest: OffsetMap
    transactions: CleanedTransactions
    producer_ends: Mapping[int, Offset]
    now_ms: int
    delete_retention_ms: int


class CleanedBatch(Struct, frozen=True):
    """`batch` is None if nothing stays. `without_key`: records that had none and went for that."""

    batch: bytes | memoryview | None
    record_count: int
    without_key: int = 0


def clean_batch(header: BatchHeader, batch: memoryview, cleaning: CleaningRound, *, must_stay: bool) -> CleanedBatch:
    """Clean one batch. `must_stay`: its last offset is the end of a segment, so that at least its header stays.

    Raises UncleanableBatchError.
    """
    is_last_of_producer = (
        header.producer_id != NO_PRODUCER_ID and cleaning.producer_ends.get(header.producer_id) == header.last_offset
    )
    emptied = CleanedBatch(encode_emptied(header) if must_stay or is_last_of_producer else None, 0)
    if header.record_count == 0:
        return emptied
    if header.is_control:
        return _clean_marker(header, batch, cleaning, emptied)
    if header.is_transactional and cleaning.transactions.was_aborted(header.producer_id, Offset(header.base_offset)):
        return emptied
    return _clean_records(header, batch, cleaning, emptied)


def _clean_marker(
    header: BatchHeader, batch: memoryview, cleaning: CleaningRound, emptied: CleanedBatch
) -> CleanedBatch:
    """Keep a marker as long as its transaction, and then as long as a tombstone would be."""
    if not cleaning.transactions.has_outlived(Offset(header.base_offset)):
        return CleanedBatch(batch, header.record_count)
    horizon = header.delete_horizon_ms
    if horizon is None:
        section, whole = _section(header, batch), _Retained()
        for record in read_records(section, header.record_count):
            whole.add(record)
        return CleanedBatch(_rebuild(header, section, whole, cleaning, sets_horizon=True), header.record_count)
    return emptied if horizon <= cleaning.now_ms else CleanedBatch(batch, header.record_count)


def _clean_records(
    header: BatchHeader, batch: memoryview, cleaning: CleaningRound, emptied: CleanedBatch
) -> CleanedBatch:
    section = _section(header, batch)
    retained = _select(header, section, cleaning)
    if not retained.count:
        return CleanedBatch(emptied.batch, 0, retained.without_key)
    sets_horizon = header.delete_horizon_ms is None and retained.has_tombstones
    if retained.count == header.record_count and not sets_horizon:
        return CleanedBatch(batch, retained.count)
    rebuilt = _rebuild(header, section, retained, cleaning, sets_horizon=sets_horizon)
    return CleanedBatch(rebuilt, retained.count, retained.without_key)


class _Retained:
    """What stays of a batch, as runs of bytes: a batch can have more records than there is room for as objects."""

    def __init__(self) -> None:
        self.count = self.without_key = 0
        self.has_tombstones = False
        self.newest_delta: int | None = None
        """The largest timestamp, relative to the batch's."""
        self._bounds = array("I")  # Start and end of each run, in turn.

    def add(self, record: StoredRecord) -> None:
        """Retain the next record."""
        bounds, delta = self._bounds, record.timestamp_delta
        if bounds and bounds[-1] == record.start:
            bounds[-1] = record.end
        else:
            bounds.extend((record.start, record.end))
        self.count += 1
        self.has_tombstones |= not record.has_value
        if self.newest_delta is None or delta > self.newest_delta:
            self.newest_delta = delta

    @property
    def runs(self) -> Iterator[tuple[int, int]]:
        """Start and end of each run of records."""
        return zip(self._bounds[0::2], self._bounds[1::2], strict=True)


def _select(header: BatchHeader, section: bytes, cleaning: CleaningRound) -> _Retained:
    """Select the records that stay, and count those without a key.

    Of each key the newest one stays, unless it is a tombstone that has outlived its horizon, and so do all records
    behind what the offset map covers.
    """
    base, newest, latest = header.base_offset, cleaning.newest.newest, cleaning.newest.latest
    horizon = header.delete_horizon_ms
    keeps_tombstones = horizon is None or cleaning.now_ms < horizon
    retained = _Retained()
    for record in read_records(section, header.record_count):
        offset = base + record.offset_delta
        if offset > latest:
            retained.add(record)
        elif record.key is None:
            retained.without_key += 1
        elif offset >= newest(record.key) and (record.has_value or keeps_tombstones):
            retained.add(record)
    return retained


def records_of(header: BatchHeader, batch: memoryview) -> Iterator[StoredRecord]:
    """Read all records of a batch. Raises UncleanableBatchError, after the records before the fault."""
    return read_records(_section(header, batch), header.record_count)


def _section(header: BatchHeader, batch: memoryview) -> bytes:
    codec = find_codec(header.attributes)
    if codec is None:
        raise UncleanableBatchError(f"the attributes {header.attributes:#06x} name no known compression")
    try:
        return bytes(decompress(codec, batch[HEADER_SIZE:], LARGEST_BATCH))
    except CompressionError as error:
        raise UncleanableBatchError(str(error)) from None


def _rebuild(
    header: BatchHeader, section: bytes, retained: _Retained, cleaning: CleaningRound, *, sets_horizon: bool
) -> bytes:
    assert retained.newest_delta is not None, "a batch without records is emptied"
    if not header.has_append_time:
        header = header._replace(max_timestamp=header.base_timestamp + retained.newest_delta)
    kept, view = bytearray(), memoryview(section)
    if sets_horizon:
        horizon = cleaning.now_ms + cleaning.delete_retention_ms
        distance = horizon - header.base_timestamp
        header = with_delete_horizon(header, horizon)
        for start, end in retained.runs:
            for record in read_run(section, start, end):
                kept += with_base_moved(section, record, distance)
    else:
        for start, end in retained.runs:
            kept += view[start:end]
    codec = find_codec(header.attributes)
    assert codec is not None, "its records were read"
    return encode_with_records(header._replace(record_count=retained.count), compress(codec, bytes(kept)))
