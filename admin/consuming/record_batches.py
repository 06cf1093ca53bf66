"""Makes and reads record batches of version 2, as clients do, with aiokafka's builders and its CRC-32C."""

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from typing import NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c
from msgspec import Struct

from cluster.model.bounds import LARGEST_BATCH
from cluster.model.broker import Offset
from cluster.model.compression import (
    CODEC_MASK,
    CompressionCodec,
    CompressionError,
    decompress,
    find_codec,
)
from cluster.model.errors import ClusterError, ErrorCode

_MAGIC = 2
_NO_PRODUCER = -1
_EXTENT = Layout(">qi11xi")  # base offset, length, last offset delta
_LENGTH_END = 12
_CHECKSUM = Layout(">I")
_CHECKSUM_AT = 17
_ATTRIBUTES_AT = 21
_PRODUCER = Layout(">qhi")  # producer id, epoch, base sequence
_PRODUCER_AT = 43
BATCH_OVERHEAD = 61
"""The number of bytes in a batch's header."""


Headers = tuple[tuple[str, bytes | None], ...]
"""Pairs of a name, which may come several times, and a value."""


class Record(Struct, frozen=True, gc=False):
    """Holds one consumed record. `timestamp` is in ms since the Unix epoch."""

    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class BatchBuilder:
    """Collects records of one partition into one batch of at most `batch_size` bytes (or one large record).

    It has no producer id: `with_producer` gives it one when it is sent.
    """

    def __init__(self, batch_size: int, codec: CompressionCodec = CompressionCodec.NONE) -> None:
        self._builder = DefaultRecordBatchBuilder(
            magic=_MAGIC,
            compression_type=int(codec),
            is_transactional=0,
            producer_id=_NO_PRODUCER,
            producer_epoch=_NO_PRODUCER,
            base_sequence=_NO_PRODUCER,
            batch_size=batch_size,
        )
        self.count = 0

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> bool:
        """Add a record. Returns False if it does not fit; the first record always does."""
        if self._builder.append(self.count, timestamp, key, value, list(headers)) is None:
            return False
        self.count += 1
        return True

    @property
    def size(self) -> int:
        """The number of bytes so far, with the header."""
        return int(self._builder.size())

    def build(self) -> bytes:
        return bytes(self._builder.build())


def with_producer(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """Return the batch with these numbers of its producer in the header, and the checksum that belongs to them."""
    numbered = bytearray(batch)
    _PRODUCER.pack_into(numbered, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _CHECKSUM.pack_into(numbered, _CHECKSUM_AT, crc32c(memoryview(numbered)[_ATTRIBUTES_AT:]))
    return bytes(numbered)


def build_batches(
    records: Iterable[Record], batch_size: int, codec: CompressionCodec = CompressionCodec.NONE
) -> list[bytes]:
    """Encode records into as many batches of at most `batch_size` bytes, before compression, as they need, in order."""
    batches = []
    builder = BatchBuilder(batch_size, codec)
    for record in records:
        if not builder.append(record.timestamp, record.key, record.value, record.headers):
            batches.append(builder.build())
            builder = BatchBuilder(batch_size, codec)
            builder.append(record.timestamp, record.key, record.value, record.headers)
    if builder.count:
        batches.append(builder.build())
    return batches


class DecodedRecords(Struct, frozen=True):
    """Holds the records in a leader's response, and the offset to fetch next, after its last whole batch."""

    records: list[Record]
    next_offset: Offset


class BadBatchError(ClusterError):
    """Raised for a batch at `base_offset` that cannot be read; the records after it begin at `next_offset`."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, base_offset: Offset, next_offset: Offset, why: str) -> None:
        super().__init__(f"{self.code.name}: the batch at offset {base_offset}: {why}")
        self.base_offset, self.next_offset, self.why = base_offset, next_offset, why


def decode_records(data: bytes, wanted: Offset) -> DecodedRecords:
    """Decode the records from offset `wanted` on; a leader's response begins with a whole batch, perhaps before it.

    Control batches are skipped. At a batch that cannot be read, the result ends with the records before it, so that
    they are not lost; if there are none, BadBatchError is raised.
    """
    decoded: list[Record] = []
    next_offset = wanted
    for extent in batch_extents(data):
        if extent.next_offset <= wanted and not extent.is_wrong:
            continue
        try:
            decoded += _read_batch(data, extent, wanted)
        except _UnreadableError as error:
            if next_offset > wanted:
                break
            behind = max(extent.following, Offset(wanted + 1))
            raise BadBatchError(extent.base_offset, behind, str(error)) from None
        next_offset = extent.next_offset
    if data and next_offset == wanted:
        # Without this the caller would fetch the same bytes for ever; a leader sends the batch of the wanted offset.
        raise BadBatchError(wanted, Offset(wanted + 1), f"the leader's {len(data)} bytes do not reach this offset")
    return DecodedRecords(decoded, next_offset)


class _UnreadableError(Exception):
    pass


class BatchExtent(NamedTuple):
    """Says where a batch is in the data, and which offsets it has according to its header.

    `following`: the offset at which the next batch begins. It is read from the next batch if that is there, because
    this batch's header may be what is wrong.
    """

    position: int
    end: int
    base_offset: Offset
    next_offset: Offset
    following: Offset
    is_wrong: bool


def batch_extents(data: bytes) -> Iterator[BatchExtent]:
    """Yield the whole batches, up to and including the first whose length or offsets cannot be right."""
    position = 0
    while len(data) - position >= BATCH_OVERHEAD:
        base, length, last_delta = _EXTENT.unpack_from(data, position)
        end, behind = position + _LENGTH_END + length, base + last_delta + 1
        if end > len(data) and position > 0:
            return  # Cut off by the limit of the fetch; the first batch never is.
        is_wrong = not position + BATCH_OVERHEAD <= end <= len(data) or base < 0 or last_delta < 0
        has_next = not is_wrong and end + _EXTENT.size <= len(data)
        following = max(behind, base + 1) if not has_next else _EXTENT.unpack_from(data, end)[0]
        yield BatchExtent(position, end, Offset(base), Offset(behind), Offset(following), is_wrong)
        if is_wrong:
            return
        position = end


def _read_batch(data: bytes, extent: BatchExtent, wanted: Offset) -> list[Record]:
    """Read the records of a batch; a control batch has none. Raises _UnreadableError."""
    if extent.is_wrong:
        raise _UnreadableError("its length or its offsets are wrong")
    content = data[extent.position : extent.end]
    batch = DefaultRecordBatch(content)
    if batch.magic != _MAGIC:
        raise _UnreadableError(f"its magic is {batch.magic}, not {_MAGIC}")
    if crc32c(memoryview(content)[_ATTRIBUTES_AT:]) != batch.crc:
        raise _UnreadableError("its checksum is wrong")
    if batch.is_control_batch:
        return []
    try:
        # Of the objects that it yields none is kept: garbage collection would look at all of them, again and again.
        records = [
            Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in _decompressed(batch, content)
        ]
    except (CorruptRecordException, CompressionError) as error:
        raise _UnreadableError(str(error)) from None
    except UnicodeDecodeError:
        raise _UnreadableError("the key of a header is not UTF-8") from None
    except (MemoryError, OverflowError):
        raise _UnreadableError("a length in it is larger than the batch") from None
    offsets = [record.offset for record in records]
    if offsets and not extent.base_offset <= min(offsets) <= max(offsets) < extent.next_offset:
        raise _UnreadableError("the offsets of its records contradict its header")
    return records if extent.base_offset >= wanted else [record for record in records if record.offset >= wanted]


def _decompressed(batch: DefaultRecordBatch, content: bytes) -> DefaultRecordBatch:
    """Uncompress the records of a batch within a bound, which aiokafka's own decompression does not have."""
    codec = find_codec(batch.attributes)
    if codec is None:
        raise _UnreadableError(f"its attributes {batch.attributes:#06x} name no known compression")
    if codec is CompressionCodec.NONE:
        return batch
    records = decompress(codec, memoryview(content)[BATCH_OVERHEAD:], LARGEST_BATCH)
    attributes = (batch.attributes & ~CODEC_MASK).to_bytes(2, "big", signed=True)
    header = content[:_ATTRIBUTES_AT] + attributes + content[_ATTRIBUTES_AT + 2 : BATCH_OVERHEAD]
    return DefaultRecordBatch(header + bytes(records))
