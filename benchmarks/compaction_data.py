"""The log of the benchmark of compaction: made once, cleaned by klamm and by Kafka; and what is left of it."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from broker_agent.compaction.batch_cleaning import records_of
from broker_agent.log.record_batch import BatchHeader, encode_with_records, walk
from cluster.model.compression import CompressionCodec, compress
from deploy.local.locked_jars import Say

RECORDS_PER_BATCH: Final = 100
_KEY_BYTES: Final = 10
_VALUES: Final = 4096
"""Different values; random bytes, which compress badly."""
_FIRST_MS: Final = 1_700_000_000_000


class DataSize(Struct, frozen=True):
    """How large the log is. Sizes in bytes."""

    records: int
    keys: int
    value_bytes: int
    segment_bytes: int
    compression: CompressionCodec = CompressionCodec.NONE


class Survivors(Struct, frozen=True):
    """What is left of the cleaned segments: records, bytes, and a digest of offsets and records."""

    records: int
    bytes: int
    digest: str


def write_log(folder: Path, size: DataSize, say: Say) -> int:
    """Write the segments into a partition's folder; returns the base offset of the active one, which has one record."""
    folder.mkdir(parents=True)
    offset, written, file = 0, 0, (folder / f"{0:020}.log").open("wb")
    for batch in _batches(size):
        if written + len(batch) > size.segment_bytes:
            file.close()
            say(f"{offset:,} of {size.records:,} records are written")
            file, written = (folder / f"{offset:020}.log").open("wb"), 0
        file.write(batch)
        written += len(batch)
        offset += RECORDS_PER_BATCH
    file.close()
    (folder / f"{offset:020}.log").write_bytes(_encode(offset, [_record(0, b"active key", b"v")], size.compression))
    return offset


def _batches(size: DataSize) -> Iterator[bytes]:
    random = Random(1)
    keys = [b"%0*d" % (_KEY_BYTES, number) for number in range(size.keys)]
    values = [random.randbytes(size.value_bytes) for _ in range(_VALUES)]
    for base in range(0, size.records - RECORDS_PER_BATCH + 1, RECORDS_PER_BATCH):
        chosen = random.choices(keys, k=RECORDS_PER_BATCH)
        records = [_record(delta, key, values[(base + delta) * 7 % _VALUES]) for delta, key in enumerate(chosen)]
        yield _encode(base, records, size.compression)


def _record(delta: int, key: bytes, value: bytes) -> bytes:
    body = b"".join((b"\0", _number(0), _number(delta), _number(len(key)), key, _number(len(value)), value, b"\0"))
    return _number(len(body)) + body


def _number(value: int) -> bytes:
    """Encode a number that is not negative as the fields of a record have it."""
    rest, encoded = value << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _encode(base: int, records: list[bytes], compression: CompressionCodec) -> bytes:
    timestamp = _FIRST_MS + base
    header = BatchHeader(
        base_offset=base,
        length=0,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=compression,
        last_offset_delta=len(records) - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(records),
    )
    return encode_with_records(header, compress(compression, b"".join(records)))


def survivors(folder: Path, active: int) -> Survivors:
    """Read what is left below the active segment."""
    count, size, digest = 0, 0, sha256()
    for path in sorted(folder.glob("*.log")):
        if int(path.stem) >= active:
            continue
        content = path.read_bytes()
        size += len(content)
        for position, header in walk(content):
            for record in records_of(header, memoryview(content)[position : position + header.size]):
                count += 1
                digest.update(b"%d %s" % (header.base_offset + record.offset_delta, record.key))
    return Survivors(count, size, digest.hexdigest())
