"""A Spark data source that tails state-change logs: each line exactly once, in blocks of columns.

Spark's own file source reads a file once and never sees what is appended to it afterwards. Offsets are the positions of
`audit.log_files`. Rows are (bucket, what, data), few and large: no record is a row of the JVM.

- `records`: a batch of `audit.columns.RECORDS`, in Arrow's stream format. The bucket follows from the key; records that
  concern no partition are in the last one.
- `lines`: what the lines of one file were, as `ReadRange`, in the last bucket.
"""

import gc
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import numpy
import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from audit.columns import RECORDS, decode_block, to_columns
from audit.incarnations import Span, joined, spans_of
from audit.log_files import LogFiles, Position, Range, advance, ends, ranges
from audit.node_work import TopicSize, Work, joined_sizes, joined_work, sizes_of, work_of
from audit.schema import SOURCE
from audit.vectors import keys
from state_log.chain import ChainSegment, extend_many
from state_log.record import LoggedStateChange, MalformedLine
from state_log.writer import parse_segment_name

FORMAT: Final = "klamm-state-changes"
RECORDS_ROW, LINES_ROW = "records", "lines"
_BLOCK_BYTES: Final = 1 << 20
"""Lines decoded at a time: what fits into the processor's cache is decoded twice as fast."""
_SHOWN_BYTES: Final = 1000
QUARANTINED_MAX: Final = 1000
"""Malformed lines of one range that are kept one by one; the others are counted."""


class QuarantinedLine(msgspec.Struct, frozen=True):
    """A line that is no record. `offset`: where it begins in the file; `line`: its beginning, bytes that are no text
    escaped.
    """

    file: str
    offset: int
    size: int
    line: str
    why: str


class ReadRange(msgspec.Struct, frozen=True):
    """The lines of a range of a file, up to byte `end`; `lines`: the first of the `quarantined` (malformed) ones.

    `bytes`: of the range. `work`, `sizes`: of its records.
    """

    log: str
    file: str
    end: int
    records: int
    quarantined: int
    segments: tuple[ChainSegment, ...]
    spans: tuple[Span, ...]
    lines: tuple[QuarantinedLine, ...]
    bytes: int = 0
    work: tuple[Work, ...] = ()
    sizes: tuple[TopicSize, ...] = ()

    @property
    def retained_from(self) -> int | None:
        """The first number that the name of the file states; None if it states none."""
        name = parse_segment_name(Path(self.file).name)
        return None if name is None else name.first_seq


class StateChangeSource(DataSource):
    """Options: `directories` (a JSON list of folders, searched in depth), `max_bytes` of a batch, its `tasks`, the
    number of `buckets`.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return SOURCE

    def streamReader(self, schema: StructType) -> "StateChangeReader":  # noqa: N802
        directories = [Path(name) for name in json.loads(self.options["directories"])]
        numbers = (int(self.options[name]) for name in ("max_bytes", "tasks", "buckets"))
        return StateChangeReader(directories, *numbers)


@dataclass
class TaskRanges(InputPartition):
    """What one task reads."""

    ranges: Sequence[Range]


class StateChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches by file sizes on the driver; reads them in tasks. Method names are Spark's."""

    def __init__(self, directories: Sequence[Path], max_bytes: int, tasks: int, buckets: int) -> None:
        self._files = LogFiles(directories)
        self._max_bytes, self._tasks, self._buckets = max_bytes, tasks, buckets
        self._stop_at: dict[str, Position] | None = None

    def initialOffset(self) -> dict[str, Position]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = advance({}, ends(self._files.logs(), {}), None)

    def latestOffset(self, start: dict[str, Position], limit: ReadLimit) -> dict[str, Position]:  # noqa: N802
        """Where the next batch ends."""
        begin = _positions(start)
        budget = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        end = advance(begin, ends(self._files.logs(), begin), budget)
        if self._stop_at is None:
            return end
        return {log: min(end[log], self._stop_at[log]) for log in end if log in self._stop_at} | {
            log: position for log, position in begin.items() if log not in self._stop_at
        }

    def partitions(self, start: dict[str, Position], end: dict[str, Position]) -> list[TaskRanges]:
        """Ranges spread over the tasks, the largest first to the one with least to do."""
        wanted = ranges(self._files.logs(), _positions(start), _positions(end))
        shares: list[list[Range]] = [[] for _ in range(min(self._tasks, len(wanted)))]
        sizes = [0] * len(shares)
        for part in sorted(wanted, key=lambda r: (r.first - r.end, r.path)):
            least = sizes.index(min(sizes))
            shares[least].append(part)
            sizes[least] += part.end - part.first
        return [TaskRanges(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, TaskRanges), "Spark hands back what `partitions` made"
        # Millions of records live for the time of one block: the collector would only traverse them.
        gc.disable()
        try:
            yield from read_ranges(partition.ranges, self._buckets)
        finally:
            gc.enable()


def read_ranges(wanted: Sequence[Range], buckets: int) -> Iterator[pyarrow.RecordBatch]:
    """The rows of these ranges: columns by bucket, and what the lines were."""
    parts: list[list[pyarrow.RecordBatch]] = [[] for _ in range(buckets + 1)]
    for part in wanted:
        summary = RangeSummary(part)
        for block in summary.blocks():
            columns = to_columns(block)
            summary.add(columns)
            for bucket, rows in enumerate(split(columns, buckets)):
                if rows.num_rows:
                    parts[bucket].append(rows)
        yield _row(buckets, LINES_ROW, _encode(summary.result()))
    for bucket, batches in enumerate(parts):
        if batches:
            yield _row(bucket, RECORDS_ROW, to_stream(batches))


def split(rows: pyarrow.RecordBatch, buckets: int) -> list[pyarrow.RecordBatch]:
    """The rows of each bucket, and last those of no partition."""
    key = keys(pyarrow.chunked_array([rows.column("key")]))
    bucket = numpy.where(key == 0, numpy.uint64(buckets), key % numpy.uint64(buckets)).astype(numpy.int64)
    order = numpy.argsort(bucket, kind="stable")
    cuts = numpy.searchsorted(bucket[order], numpy.arange(buckets + 2)).tolist()
    by_bucket = rows.take(pyarrow.array(order))
    return [by_bucket.slice(first, end - first) for first, end in pairwise(cuts)]


def to_stream(batches: Sequence[pyarrow.RecordBatch]) -> bytes:
    """The batches as one, in Arrow's stream format."""
    table = pyarrow.Table.from_batches(batches, RECORDS).unify_dictionaries().combine_chunks()
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, RECORDS) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def from_stream(data: bytes) -> pyarrow.Table:
    """The table of `to_stream`."""
    with pyarrow.ipc.open_stream(pyarrow.py_buffer(data)) as reader:
        return reader.read_all()


class RangeSummary:
    """Reads the lines of a range in blocks, and keeps what they were: chained segments, malformed lines."""

    def __init__(self, part: Range) -> None:
        self._range = part
        self._records = self._quarantined = 0
        self._segments: list[ChainSegment] = []
        self._spans: list[Span] = []
        self._lines: list[QuarantinedLine] = []
        self._work: dict[str, Work] = {}
        self._sizes: dict[tuple[str, str | None], TopicSize] = {}

    def blocks(self) -> Iterator[list[LoggedStateChange]]:
        """The records, some thousand at a time."""
        for offset, lines in self._line_blocks():
            decoded = decode_block(lines)
            records = [record for record in decoded if not isinstance(record, MalformedLine)]
            if len(records) < len(decoded):
                self._quarantine(offset, lines, decoded)
            good = [line for line, r in zip(lines, decoded, strict=True) if not isinstance(r, MalformedLine)]
            extend_many(self._segments, records, good)
            self._records += len(records)
            yield records

    def add(self, rows: pyarrow.RecordBatch) -> None:
        """Add what these records, the next ones, show in their order."""
        for work in work_of(rows):
            self._work[work.name] = joined_work(self._work.get(work.name), work)
        for size in sizes_of(rows):
            known = self._sizes.get((size.topic, size.topic_id))
            self._sizes[size.topic, size.topic_id] = size if known is None else joined_sizes(known, size)
        for span in spans_of(rows):
            last = self._spans[-1] if self._spans else None
            if last is not None and (last.node, last.incarnation) == (span.node, span.incarnation):
                self._spans[-1] = joined(last, span)
            else:
                self._spans.append(span)

    def result(self) -> ReadRange:
        return ReadRange(
            self._range.log,
            str(self._range.path),
            self._range.end,
            self._records,
            self._quarantined,
            tuple(self._segments),
            tuple(self._spans),
            tuple(self._lines),
            self._range.end - self._range.first,
            tuple(self._work.values()),
            tuple(self._sizes.values()),
        )

    def _line_blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """(byte offset, complete lines) of each block."""
        try:
            file = self._range.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._range.first)
            position, rest = self._range.first, b""
            while position + len(rest) < self._range.end:
                size = min(_BLOCK_BYTES, self._range.end - position - len(rest))
                read = file.read(size)
                if not read:
                    break
                block = rest + read
                end = block.rfind(b"\n") + 1
                if end:
                    yield position, block[: end - 1].split(b"\n")
                position, rest = position + end, block[end:]
            if rest:
                yield position, [rest]

    def _quarantine(
        self, offset: int, lines: Sequence[bytes], decoded: Sequence[LoggedStateChange | MalformedLine]
    ) -> None:
        for line, record in zip(lines, decoded, strict=True):
            # Nobody writes empty lines; they say nothing and hide nothing.
            if isinstance(record, MalformedLine) and line:
                self._quarantined += 1
                if len(self._lines) < QUARANTINED_MAX:
                    text = line[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
                    self._lines.append(
                        QuarantinedLine(str(self._range.path), offset, len(line), text, record.why[:_SHOWN_BYTES])
                    )
            offset += len(line) + 1


def _row(bucket: int, what: str, data: bytes) -> pyarrow.RecordBatch:
    values = {"bucket": [bucket], "what": [what], "data": pyarrow.array([data], pyarrow.binary())}
    return pyarrow.record_batch(values, schema=_ROW)


def _positions(offset: dict[str, Position]) -> dict[str, Position]:
    """An offset, as Spark has read it back from JSON, as positions."""
    return {log: Position(*position) for log, position in offset.items()}


_ROW: Final = pyarrow.schema({"bucket": pyarrow.int32(), "what": pyarrow.string(), "data": pyarrow.binary()})
_encode = msgspec.json.Encoder().encode
