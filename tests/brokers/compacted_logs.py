"""Logs with keyed records, and a cleaner for them, in the worlds of the contract of logs."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from admin.consuming.record_batches import Record, build_batches, decode_records
from broker_agent.compaction.log_cleaner import LogCleaner
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import BatchHeader, encode_with_records, parse_header, walk
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.compression import CompressionCodec
from tests.contract.log_worlds import Node

SIZE_OF_HEADER = 61


class Stored(NamedTuple):
    """A record as a consumer gets it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def keyed_batch(
    records: Iterable[tuple[str | None, str | None]],
    *,
    codec: CompressionCodec = CompressionCodec.NONE,
    timestamp: int = 1000,
    **fields: int,
) -> bytes:
    """One batch of a client with these keys and values; a value None is a tombstone. `fields` of the header."""
    encoded = [
        Record(
            Offset(0),
            timestamp + number,
            None if key is None else key.encode(),
            None if value is None else value.encode(),
        )
        for number, (key, value) in enumerate(records)
    ]
    [batch] = build_batches(encoded, 1 << 20, codec)
    header = parse_header(batch)
    attributes = fields.pop("attributes", 0) | header.attributes
    return encode_with_records(header._replace(attributes=attributes, **fields), batch[SIZE_OF_HEADER:])


def marker_batch(producer_id: int, *, commits: bool, offset: int = 0, **fields: int) -> bytes:
    """A transaction marker, as Kafka's coordinator lets the leader write it."""
    record = Record(Offset(0), 1000, b"\0\0\0" + bytes((commits,)), b"\0\0\0\0\0\0")
    [batch] = build_batches([record], 1 << 20)
    header = parse_header(batch)._replace(
        attributes=0x30, producer_id=producer_id, producer_epoch=0, base_offset=offset
    )
    return encode_with_records(header._replace(**fields), batch[SIZE_OF_HEADER:])


def append(log: PartitionLog, *batches: bytes, epoch: int = 0) -> None:
    """Append batches as the leader, and commit them."""
    for batch in batches:
        log.append_as_leader(batch, LeaderEpoch(epoch), 1_000_000)
    log.set_high_watermark(log.log_end_offset)


def copy_to(log: PartitionLog, *batches: bytes, epoch: int = 0) -> None:
    """Append batches with control batches as a follower, from the log end on, and commit them."""
    for batch in batches:
        header = parse_header(batch)._replace(base_offset=log.log_end_offset, leader_epoch=epoch)
        log.append_as_follower(encode_with_records(header, batch[SIZE_OF_HEADER:]), LeaderEpoch(epoch))
    log.set_high_watermark(log.log_end_offset)


def roll(log: PartitionLog) -> None:
    """Begin a new active segment."""
    log._roll(log.segments.active.next_offset)


def stored_headers(log: PartitionLog) -> list[BatchHeader]:
    return list(log.batches())


def stored_records(log: PartitionLog) -> list[Stored]:
    """All records from the log start on, fetched as a consumer fetches them: from where the last fetch ended."""
    found: list[Stored] = []
    at = log.log_start_offset
    while at < log.log_end_offset:
        data = log.read(at, 1 << 20, log.log_end_offset, at_least_one=True)
        if not data:
            break
        decoded = decode_records(data, at)
        found += [Stored(r.offset, r.timestamp, r.key, r.value) for r in decoded.records]
        assert decoded.next_offset > at
        at = decoded.next_offset
    return found


def values(log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    """(offset, key, value) of all records."""
    return [(r.offset, r.key and r.key.decode(), r.value and r.value.decode()) for r in stored_records(log)]


def cleaner_of(node: Node, metrics: Metrics | None = None, **settings: object) -> LogCleaner:
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    return LogCleaner(BrokerId(1), node.logs, Settings(**keys), metrics or Metrics(), node.clock)


async def clean(node: Node, **settings: object) -> bool:
    """Clean the dirtiest log once; whether there was one."""
    return await cleaner_of(node, **settings).clean_dirtiest()


def surviving(records: Sequence[Stored], end: int) -> list[Stored]:
    """What a cleaning up to `end` leaves by the definition: the last record of each key, and what is at `end` or
    behind it. Tombstones stay.
    """
    last = {record.key: record.offset for record in records if record.offset < end}
    return [r for r in records if r.offset >= end or (r.key is not None and last[r.key] == r.offset)]


def sizes_are_sound(log: PartitionLog) -> None:
    """Check that every batch has the size and the checksum that its header says."""
    for segment in log.segments:
        data = b"".join(segment.batch_at(placed) for placed in segment.batches())
        assert len(data) == segment.size
        assert sum(header.size for _, header in walk(data)) == len(data)
