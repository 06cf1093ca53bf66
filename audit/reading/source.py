"""A Spark data source that tails state-change logs: each line exactly once, in blocks of columns.

Spark's own file source reads a file once and never sees what is appended to it afterwards. Offsets are the positions of
`audit.reading.log_files`. Rows are (bucket, what, data), few and large: no record is a row of the JVM.

- `records`: a batch of `audit.records.columns.RECORDS`, in Arrow's stream format. The bucket follows from the key;
  records that concern no partition are in the last one.
- `lines`: what the lines of one file were, as `ReadRange`, in the last bucket.
- `files`: what is wrong with files, as a list of `FileFault`, in the last bucket.
"""

import gc
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy
import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from audit.chains.incarnations import Span, joined, spans_of
from audit.chains.line_digests import packed
from audit.reading.changed_files import FileFault, ReadFiles, is_fault, new_faults, to_offsets
from audit.reading.kafka.reading import KafkaSummary
from audit.reading.lines_read import Quarantine, ReadRange, line_blocks, modified_ns
from audit.reading.log_files import FileSegment, LogFiles, Position, Positions, Range, advance, ends, file_text, ranges
from audit.reading.node_work import WorkRead
from audit.reading.schema import SOURCE
from audit.reading.unclear_records import Unclear, joined_unclear, unclear_records
from audit.records.columns import RECORDS, decode_block, to_columns
from audit.records.vectors import is_one_of, keys, with_schema
from state_log.chain import ChainSegment, extend_many
from state_log.record import Kind, LoggedStateChange, MalformedLine

FORMAT: Final = "klamm-state-changes"
UTC: Final = "UTC"
RECORDS_ROW, LINES_ROW, FILES_ROW = "records", "lines", "files"


class StateChangeSource(DataSource):
    """Options: `directories` (a JSON list of folders, searched in depth), `max_bytes` of a batch, its `tasks`, the
    number of `buckets`, the time `zone` of Kafka's logs, and `since_ns` and `ends` (JSON): see `ReadFiles`.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return SOURCE

    def streamReader(self, schema: StructType) -> "StateChangeReader":  # noqa: N802
        directories = [Path(name) for name in json.loads(self.options["directories"])]
        max_bytes, tasks, buckets, since_ns = (
            int(self.options[name]) for name in ("max_bytes", "tasks", "buckets", "since_ns")
        )
        plan = ReadPlan(max_bytes, tasks, buckets, self.options["zone"])
        return StateChangeReader(directories, plan, ReadFiles(since_ns, json.loads(self.options["ends"])))


class ReadPlan(NamedTuple):
    """`max_bytes` of a batch, its `tasks`, the number of `buckets`, and the time `zone` of Kafka's logs."""

    max_bytes: int
    tasks: int
    buckets: int
    zone: str = UTC


@dataclass
class TaskRanges(InputPartition):
    """Holds what one task reads, and what it reports of files."""

    ranges: Sequence[Range]
    faults: Sequence[FileFault] = ()


class StateChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches by file sizes on the driver; reads them in tasks. Method names are Spark's."""

    def __init__(self, directories: Sequence[Path], plan: ReadPlan, read_files: ReadFiles) -> None:
        self._files, self._plan, self._read_files = LogFiles(directories), plan, read_files
        self._stop_at: dict[str, Position] | None = None

    def initialOffset(self) -> dict[str, Position]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._plan.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = advance({}, ends(self._files.logs(), {}), None)

    def latestOffset(self, start: dict[str, Position], limit: ReadLimit) -> dict[str, Position]:  # noqa: N802
        """Choose where the next batch ends."""
        begin = _positions(start)
        budget = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        logs = self._files.logs()
        faults = self._faults(logs, begin)
        end = advance(begin, ends(logs, begin), budget)
        if self._stop_at is not None:
            end = {log: min(end[log], self._stop_at[log]) for log in end if log in self._stop_at} | {
                log: position for log, position in begin.items() if log not in self._stop_at
            }
        return faults | end

    def _faults(self, logs: Mapping[str, Sequence[FileSegment]], begin: Positions) -> dict[str, Position]:
        """The faults of files. All files are looked at where the query ends with what is there."""
        read = {log: position for log, position in begin.items() if not is_fault(log)}
        everything = self._stop_at is not None
        return to_offsets(self._read_files.faults(logs, self._files.ignored, read, everything=everything))

    def partitions(self, start: dict[str, Position], end: dict[str, Position]) -> list[TaskRanges]:
        """Ranges for the tasks, the largest first to the one with least to do."""
        wanted = ranges(self._files.logs(), _positions(start), _positions(end))
        shares: list[list[Range]] = [[] for _ in range(min(self._plan.tasks, len(wanted)))]
        sizes = [0] * len(shares)
        for part in sorted(wanted, key=lambda r: (r.first - r.end, str(r.path))):
            least = sizes.index(min(sizes))
            shares[least].append(part)
            sizes[least] += part.end - part.first
        faults = new_faults(_positions(start), _positions(end))
        return [TaskRanges(share) for share in shares] + ([TaskRanges((), faults)] if faults else [])

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, TaskRanges), "Spark hands back what `partitions` made"
        # Millions of records live for the time of one block: the collector would only traverse them.
        gc.disable()
        try:
            yield from read_ranges(partition.ranges, self._plan.buckets, self._plan.zone)
            if partition.faults:
                yield faults_row(self._plan.buckets, partition.faults)
        finally:
            gc.enable()


def read_ranges(wanted: Sequence[Range], buckets: int, zone: str = UTC) -> Iterator[pyarrow.RecordBatch]:
    """The rows of these ranges: columns by bucket, and what the lines were. `zone`: of times in Kafka's logs."""
    return read_summaries((KafkaSummary(r, zone) if r.is_kafka else RangeSummary(r) for r in wanted), buckets)


class ReadSummary(Protocol):
    """Reads lines: `columns` has their records, and `result`, once these are read, what the lines were."""

    def columns(self) -> Iterator[pyarrow.RecordBatch]: ...
    def result(self) -> ReadRange: ...


def read_summaries(summaries: Iterable[ReadSummary], buckets: int) -> Iterator[pyarrow.RecordBatch]:
    """The rows of what these summaries read."""
    blocks: list[pyarrow.RecordBatch] = []
    for summary in summaries:
        blocks += summary.columns()
        yield _row(buckets, LINES_ROW, _encode(summary.result()))
    whole = pyarrow.Table.from_batches(blocks, RECORDS).unify_dictionaries().combine_chunks()
    blocks.clear()
    shared = shared_rows(whole)
    for bucket, part in enumerate(split(whole, buckets)):
        rows = part if bucket == buckets else with_shared(part, shared)
        if rows.num_rows:
            yield _row(bucket, RECORDS_ROW, to_stream(rows))


def faults_row(buckets: int, faults: Sequence[FileFault]) -> pyarrow.RecordBatch:
    """The row that says what is wrong with files."""
    return _row(buckets, FILES_ROW, _encode(list(faults)))


def split(rows: pyarrow.Table, buckets: int) -> list[pyarrow.Table]:
    """The rows of each bucket, and last those of no partition."""
    key = keys(rows["key"])
    bucket = numpy.where(key == 0, numpy.uint64(buckets), key % numpy.uint64(buckets)).astype(numpy.int64)
    order = numpy.argsort(bucket, kind="stable")
    cuts = numpy.searchsorted(bucket[order], numpy.arange(buckets + 2)).tolist()
    by_bucket = rows.take(pyarrow.array(order))
    return [by_bucket.slice(first, end - first) for first, end in pairwise(cuts)]


def shared_rows(rows: pyarrow.Table) -> pyarrow.Table:
    """The records of controllers about brokers: every bucket gets them, for elections are held against them."""
    kinds = is_one_of(rows["kind"], [Kind.BROKER.value, Kind.CONTROLLER.value])
    return rows.filter(pyarrow.array(kinds & (keys(rows["key"]) == 0)))


def with_shared(rows: pyarrow.Table, shared: pyarrow.Table) -> pyarrow.Table:
    """The rows of a bucket, and after them those that all buckets get."""
    return pyarrow.concat_tables([rows, shared]).unify_dictionaries() if shared.num_rows else rows


def to_stream(rows: pyarrow.Table) -> bytes:
    """Encode rows of RECORDS in Arrow's stream format, without the columns that are empty."""
    present = rows.select([name for name in rows.column_names if rows[name].null_count < rows.num_rows])
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, present.schema) as writer:
        writer.write_table(present)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def from_stream(data: bytes) -> pyarrow.Table:
    """Decode the table of `to_stream`, with all columns."""
    with pyarrow.ipc.open_stream(pyarrow.py_buffer(data)) as reader:
        return with_schema(reader.read_all(), RECORDS)


class RangeSummary:
    """Reads the lines of a range in blocks, and keeps what they were: chained segments, malformed lines."""

    def __init__(self, part: Range) -> None:
        self._range = part
        self._quarantine = Quarantine(part.path)
        self._records = self._converted = 0
        self._segments: list[ChainSegment] = []
        self._spans: list[Span] = []
        self._digests = bytearray()
        self._work = WorkRead()
        self._unclear: dict[str, Unclear] = {}

    def columns(self) -> Iterator[pyarrow.RecordBatch]:
        """The records, some thousand at a time."""
        for records in self._blocks():
            columns = to_columns(records)
            self._add_spans(columns)
            self._unclear = joined_unclear((self._unclear, unclear_records(columns)))
            yield columns

    def _blocks(self) -> Iterator[list[LoggedStateChange]]:
        for offset, raw in line_blocks(self._range):
            lines = self._without_returns(raw)
            decoded = decode_block(lines)
            records = [record for record in decoded if not isinstance(record, MalformedLine)]
            if len(records) < len(decoded):
                self._add_malformed(offset, raw, decoded)
                lines = [line for line, r in zip(lines, decoded, strict=True) if not isinstance(r, MalformedLine)]
            records, lines = self._unread(records, lines)
            self._digests += packed(extend_many(self._segments, records, lines))
            self._records += len(records)
            if records:
                yield records

    def _unread(
        self, records: list[LoggedStateChange], lines: Sequence[bytes]
    ) -> tuple[list[LoggedStateChange], Sequence[bytes]]:
        """The records that count, and their lines: of a file all of them."""
        return records, lines

    def _without_returns(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Undo CR LF line ends, for lines are chained as they were without them; that is reported once."""
        converted = [line[-1:] for line in lines].count(b"\r")
        if not converted:
            return lines
        self._converted += converted
        return [line.removesuffix(b"\r") for line in lines]

    def _add_spans(self, rows: pyarrow.RecordBatch) -> None:
        """Add what these records, the next ones, show in their order."""
        self._work.add(rows)
        for span in spans_of(rows):
            last = self._spans[-1] if self._spans else None
            if last is not None and (last.node, last.incarnation) == (span.node, span.incarnation):
                self._spans[-1] = joined(last, span)
            else:
                self._spans.append(span)

    def result(self) -> ReadRange:
        return ReadRange(
            self._range.log,
            file_text(self._range.path),
            self._range.end,
            self._records,
            self._quarantine.count,
            tuple(self._segments),
            tuple(self._spans),
            tuple(self._quarantine.lines),
            converted=self._converted,
            modified_ns=modified_ns(self._range.path),
            digests=bytes(self._digests),
            size=self._range.end - self._range.first,
            work=self._work.work,
            sizes=self._work.sizes,
            topic_steps=self._work.topic_steps,
            unclear=self._unclear,
        )

    def _add_malformed(
        self, offset: int, lines: Sequence[bytes], decoded: Sequence[LoggedStateChange | MalformedLine]
    ) -> None:
        for line, record in zip(lines, decoded, strict=True):
            # Nobody writes empty lines; they say nothing and hide nothing.
            if isinstance(record, MalformedLine) and line.rstrip(b"\r"):
                self._quarantine.add(offset, line, record.why)
            offset += len(line) + 1


def _row(bucket: int, what: str, data: bytes) -> pyarrow.RecordBatch:
    values = {"bucket": [bucket], "what": [what], "data": pyarrow.array([data], pyarrow.binary())}
    return pyarrow.record_batch(values, schema=_ROW)


def _positions(offset: dict[str, Position]) -> dict[str, Position]:
    """The positions in an offset that Spark has read back from JSON."""
    return {log: Position(*position) for log, position in offset.items()}


_ROW: Final = pyarrow.schema({"bucket": pyarrow.int32(), "what": pyarrow.string(), "data": pyarrow.binary()})
_encode = msgspec.json.Encoder().encode
