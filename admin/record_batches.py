"""Record batches as a client makes and reads them: version 2, through aiokafka's builders and its CRC-32C."""

from collections.abc import Iterable

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from msgspec import Struct

from cluster.broker import Offset
from cluster.errors import ErrorCode, LogAppendError

_MAGIC = 2
_NO_PRODUCER = -1
BATCH_OVERHEAD = 61
"""Bytes of a batch's header."""


class Record(Struct, frozen=True):
    """One consumed record. `timestamp` in ms since the Unix epoch."""

    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None


class BatchBuilder:
    """Collects records of one partition into one batch of at most `batch_size` bytes (or one large record).

    Without a producer id: idempotent producing would set id, epoch and sequence here.
    """

    def __init__(self, batch_size: int) -> None:
        self._builder = DefaultRecordBatchBuilder(
            magic=_MAGIC,
            compression_type=0,
            is_transactional=0,
            producer_id=_NO_PRODUCER,
            producer_epoch=_NO_PRODUCER,
            base_sequence=_NO_PRODUCER,
            batch_size=batch_size,
        )
        self.count = 0

    def append(self, timestamp: int, key: bytes | None, value: bytes | None) -> bool:
        """Add a record. Returns False if it does not fit; the first record always does."""
        if self._builder.append(self.count, timestamp, key, value, []) is None:
            return False
        self.count += 1
        return True

    @property
    def size(self) -> int:
        """Bytes so far, header included."""
        return int(self._builder.size())

    def build(self) -> bytes:
        return bytes(self._builder.build())


def build_batches(records: Iterable[Record], batch_size: int) -> list[bytes]:
    """Encode records into as many batches of at most `batch_size` bytes as they need, in order."""
    batches = []
    builder = BatchBuilder(batch_size)
    for record in records:
        if not builder.append(record.timestamp, record.key, record.value):
            batches.append(builder.build())
            builder = BatchBuilder(batch_size)
            builder.append(record.timestamp, record.key, record.value)
    if builder.count:
        batches.append(builder.build())
    return batches


class DecodedRecords(Struct, frozen=True):
    """Records of a leader's answer, and where to fetch on: after the last whole batch of it."""

    records: list[Record]
    next_offset: Offset


def decode_records(data: bytes, wanted: Offset) -> DecodedRecords:
    """Records with an offset of `wanted` or later; a leader's answer starts at a batch, not at a record.

    Control batches are passed over. Raises LogAppendError(CORRUPT_MESSAGE) when a checksum or the
    structure of a batch is wrong.
    """
    decoded: list[Record] = []
    next_offset = wanted
    try:
        batches = MemoryRecords(data)
        while (batch := batches.next_batch()) is not None:
            if batch.next_offset <= wanted:
                continue
            if not batch.validate_crc():
                raise LogAppendError(ErrorCode.CORRUPT_MESSAGE, f"checksum of the batch at offset {batch.base_offset}")
            next_offset = Offset(batch.next_offset)
            if not batch.is_control_batch:
                decoded += [Record(r.offset, r.timestamp, r.key, r.value) for r in batch if r.offset >= wanted]
    except (CorruptRecordException, UnsupportedCodecError) as error:
        raise LogAppendError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return DecodedRecords(decoded, next_offset)
