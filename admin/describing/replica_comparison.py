"""Compares what the replicas of a partition have at the same offsets, and says which of them is right. Pure.

Below the lowest high watermark every replica has the same batches, byte for byte: followers take them over as the
leader has stamped them. Source: Kafka ReplicaVerificationTool, ReplicaBuffer.verifyCheckSum.
"""

from collections.abc import Mapping
from struct import Struct as Layout
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatch
from msgspec import Struct

from admin.consuming.record_batches import BatchExtent, Record, batch_extents
from cluster.model.bounds import shortened
from cluster.model.broker import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset

_LEADER_EPOCH: Final = Layout(">i")
_LEADER_EPOCH_AT: Final = 12


class ReplicaBatch(Struct, frozen=True):
    """The batch that a replica has where they differ; offsets -1, and not intact, where it has none.

    `next_offset`: of the batch behind it. `is_intact`: whether its length, offsets and checksum agree.
    """

    broker: BrokerId
    base_offset: Offset
    next_offset: Offset
    leader_epoch: LeaderEpoch
    is_intact: bool
    content: bytes


class ReplicaDifference(Struct, frozen=True):
    """Where replicas differ first, and who is right; `right` is empty if that cannot be told."""

    offset: Offset
    batches: tuple[ReplicaBatch, ...]
    right: tuple[BrokerId, ...]
    why: str

    @property
    def wrong(self) -> tuple[BrokerId, ...]:
        """The replicas whose batch is not the right one; empty if that cannot be told."""
        return tuple(b.broker for b in self.batches if b.broker not in self.right) if self.right else ()


class ChunkComparison(Struct, frozen=True):
    """Up to where replicas are equal, and the difference there, if there is one."""

    equal_until: Offset
    difference: ReplicaDifference | None = None


def compare_chunks(chunks: Mapping[BrokerId, bytes], offset: Offset, end: Offset) -> ChunkComparison:
    """Compare what replicas answered to a fetch from `offset`, as far as all of them go, and no further than `end`.

    Every chunk begins with the batch that has the offset, and each replica has one: `offset` is below its log end.
    """
    batches = {broker: list(batch_extents(data)) for broker, data in chunks.items()}
    for index in range(max(map(len, batches.values()), default=0) or 1):
        if offset >= end:
            break
        if index > 0 and any(index >= len(of_one) for of_one in batches.values()):
            break
        found = tuple(_batch(broker, chunks[broker], of_one, index) for broker, of_one in batches.items())
        first = found[0]
        if first.next_offset <= offset or any(batch.content != first.content for batch in found):
            return ChunkComparison(offset, find_right(offset, found))
        offset = first.next_offset
    return ChunkComparison(offset)


def find_right(offset: Offset, batches: tuple[ReplicaBatch, ...]) -> ReplicaDifference:
    """Say which replicas have the right batch: of the intact ones, that of the latest leader epoch.

    A later leader has truncated what an earlier one had there and it had not: so what has the older epoch should be
    gone. With the same epoch, two intact batches cannot be told apart.
    """
    intact = [batch for batch in batches if batch.is_intact and batch.base_offset <= offset]
    if not intact:
        return ReplicaDifference(offset, batches, (), "no replica has an intact batch there")
    latest = max(batch.leader_epoch for batch in intact)
    newest = [batch for batch in intact if batch.leader_epoch == latest]
    if len({batch.content for batch in newest}) > 1:
        why = f"intact batches of the same leader epoch {latest} differ: none of them can be told to be right"
        return ReplicaDifference(offset, batches, (), why)
    is_by_epoch = len(newest) < len(intact)
    why = f"leader epoch {latest} is the latest" if is_by_epoch else "the others have no intact batch there"
    return ReplicaDifference(offset, batches, tuple(batch.broker for batch in newest), why)


def _batch(broker: BrokerId, data: bytes, extents: list[BatchExtent], index: int) -> ReplicaBatch:
    if index >= len(extents):
        return ReplicaBatch(broker, Offset(-1), Offset(-1), NO_LEADER_EPOCH, is_intact=False, content=b"")
    extent = extents[index]
    content = data[extent.position : len(data) if extent.is_wrong else extent.end]
    (epoch,) = _LEADER_EPOCH.unpack_from(content, _LEADER_EPOCH_AT)
    is_intact = not extent.is_wrong and bool(DefaultRecordBatch(content).validate_crc())
    return ReplicaBatch(broker, extent.base_offset, extent.next_offset, LeaderEpoch(epoch), is_intact, content)


class LastValues:
    """The last record of each key below an offset, in one replica of a compacted log."""

    def __init__(self) -> None:
        self.records: dict[bytes | None, Record] = {}
        self.later: set[bytes | None] = set()
        """The keys with a record at or above that offset, for which those below it may be compacted away."""
        self.start = Offset(0)
        """The highest log start offset while the replica was read."""

    def add(self, record: Record, end: Offset) -> None:
        """Take the next record of the replica, which counts if it is below `end`."""
        if record.offset >= end:
            self.later.add(record.key)
        else:
            self.records[record.key] = record


def compare_last_values(values: Mapping[BrokerId, LastValues]) -> ReplicaDifference | None:
    """The first difference between the last values of keys; None where they are equal.

    A key that was deleted is the same as one that is not there: tombstones are removed in time, at each replica in its
    own. So are records below the highest log start offset, which retention deletes at each replica in its own time.
    The right value is that of the latest record: a replica without it has lost it.
    """
    later = {key for of_one in values.values() for key in of_one.later}
    keys = {key for of_one in values.values() for key in of_one.records} - later
    start = max((of_one.start for of_one in values.values()), default=Offset(0))
    found = []
    for key in keys:
        records = {broker: of_one.records.get(key) for broker, of_one in values.items()}
        if all(record is None or record.offset < start for record in records.values()):
            continue
        if len({None if record is None else record.value for record in records.values()}) > 1:
            found.append(records)
    if not found:
        return None
    records = min(found, key=lambda found: max(r.offset for r in found.values() if r is not None))
    latest = max(record.offset for record in records.values() if record is not None)
    newest = {broker: record for broker, record in records.items() if record is not None and record.offset == latest}
    batches = tuple(_of_record(broker, record) for broker, record in records.items())
    if len({record.value for record in newest.values()}) > 1:
        why = f"the records of key {_shown(newest)} at offset {latest} differ: none of them can be told to be right"
        return ReplicaDifference(latest, batches, (), why)
    why = f"the record at offset {latest} is the latest of key {_shown(newest)}"
    return ReplicaDifference(latest, batches, tuple(newest), why)


def _shown(newest: Mapping[BrokerId, Record]) -> str:
    key = next(iter(newest.values())).key
    return shortened("" if key is None else key.decode(errors="backslashreplace"))


def _of_record(broker: BrokerId, record: Record | None) -> ReplicaBatch:
    if record is None:
        return ReplicaBatch(broker, Offset(-1), Offset(-1), NO_LEADER_EPOCH, is_intact=False, content=b"")
    behind = Offset(record.offset + 1)
    return ReplicaBatch(broker, record.offset, behind, NO_LEADER_EPOCH, is_intact=True, content=record.value or b"")
