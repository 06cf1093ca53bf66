"""Records of a Kafka topic, through Spark's own source, as the rows of `audit.reading.source`.

A task reads one partition, with all lines of some incarnations in their order; it decodes the lines of each of them in
bulk. Spark keeps the offsets in its checkpoint. A line that was read before, in this batch or an earlier one, does not
count: the bytes are the same, or number and digest are.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec
import numpy
import pyarrow
from msgspec import Struct, field
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from audit.chains.line_digests import DIGEST_BYTES, DIGESTS, find_digests
from audit.reading.lines_read import ReadRange
from audit.reading.log_files import FileContent, Range
from audit.reading.schema import SOURCE
from audit.reading.source import RangeSummary, ReadPlan, read_summaries
from audit.records.vectors import group_starts
from audit.storage.commits import BucketState
from audit.storage.file_store import Location
from audit.storage.output_folder import OutputFolder
from audit.topic.topics import REQUEST_TIMEOUT_MS, Topic
from state_log.chain import IncarnationLog
from state_log.record import LoggedStateChange, line_digest

_LINE_BYTES: Final = 512
"""About how many bytes a line has: Spark limits a batch by records."""
_COLUMNS: Final = ("key", "value", "partition", "offset")
_DIGITS: Final = 2 * DIGEST_BYTES


def stream_topic(spark: SparkSession, topic: Topic, plan: ReadPlan, output: Location) -> DataFrame:
    """The rows of `audit.reading.source` of the records in a topic, from its beginning, as a stream."""
    options = {
        "kafka.bootstrap.servers": topic.bootstrap,
        "kafka.request.timeout.ms": str(REQUEST_TIMEOUT_MS),
        "kafka.default.api.timeout.ms": str(REQUEST_TIMEOUT_MS),
        "subscribe": topic.name,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(max(1, plan.max_bytes // _LINE_BYTES)),
        # What was deleted unread may have been the only trace of a node.
        "failOnDataLoss": "true",
    }
    records = spark.readStream.format("kafka").options(**options).load()
    return records.select(*_COLUMNS).mapInArrow(_decoder(topic.name, plan.buckets, output), SOURCE)


def _decoder(
    topic: str, buckets: int, output: Location
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def decode(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        read = list(batches)
        if read:
            # The last commit is of the batch before this one, whenever Spark runs or repeats the task.
            yield from read_records(topic, pyarrow.Table.from_batches(read), ReadBefore(OutputFolder(output)), buckets)

    return decode


def read_records(
    topic: str, records: pyarrow.Table, before: "ReadBefore", buckets: int
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of these records of one partition, which are in the order of their offsets."""
    return read_summaries((TopicSummary(topic, part, before) for part in _by_key(records)), buckets)


def _by_key(records: pyarrow.Table) -> Iterable[pyarrow.Table]:
    key = records["key"].combine_chunks().dictionary_encode(null_encoding="encode")
    codes = key.indices.to_numpy()
    order = numpy.argsort(codes, kind="stable")
    large = records.set_column(1, "value", records["value"].cast(pyarrow.large_binary()))
    for first, end in pairwise([*group_starts(codes[order]).tolist(), len(order)]):
        yield large.take(pyarrow.array(order[first:end]))


class _Chains(Struct):
    """The part of the state of the cluster that is needed here."""

    incarnations: dict[str, IncarnationLog] = field(default_factory=dict)


class ReadBefore:
    """The lines that earlier batches have read."""

    def __init__(self, folder: OutputFolder) -> None:
        commit = folder.last_commit()
        cluster = BucketState() if commit is None else commit.cluster
        self._folder, self._cluster, file = folder, cluster, cluster.file
        chains = _Chains() if file is None else msgspec.msgpack.decode(folder.read_state(file), type=_Chains)
        self._next_seq = {name: log.next_seq for name, log in chains.incarnations.items()}

    def has_none_of(self, records: Sequence[LoggedStateChange]) -> bool:
        """Whether they all have numbers beyond those that were read."""
        known = [self._next_seq.get(f"{node}/{run}", 0) for node, run in {(r.node, r.incarnation) for r in records}]
        return min(record.seq for record in records) >= max(known)

    def repeated(self, records: Sequence[LoggedStateChange], lines: Sequence[bytes]) -> list[bool]:
        """Whether each line was read before."""
        names = [(f"{record.node}/{record.incarnation}", record.seq) for record in records]
        wanted = [(log, seq) for log, seq in names if seq < self._next_seq.get(log, 0)]
        read = find_digests(self._folder.table_runs(self._cluster, DIGESTS), wanted)
        return [line_digest(line)[:_DIGITS] in read.get(name, ()) for name, line in zip(names, lines, strict=True)]


class TopicSummary(RangeSummary):
    """Reads the lines of one key. Malformed ones are named by their offsets."""

    def __init__(self, topic: str, records: pyarrow.Table, before: ReadBefore) -> None:
        key, partition = records["key"][0].as_py(), records["partition"][0].as_py()
        name = "" if key is None else key.decode("utf-8", "backslashreplace")
        values = records["value"].fill_null(b"").to_pylist()
        offsets = records["offset"].to_pylist()
        first_offsets = dict(zip(reversed(values), reversed(offsets), strict=True))
        self._offsets: list[int] = sorted(first_offsets.values())
        lines = list(dict.fromkeys(values))
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self._next_offset, self._before, self._repeated_bytes = offsets[-1] + 1, before, 0
        content = FileContent(f"kafka:{topic}/{partition}/{name}", b"\n".join([*lines, b""]), 0)
        super().__init__(Range(name.replace("/", "-", 1), content, 0, len(content.data)))

    def _unread(
        self, records: list[LoggedStateChange], lines: Sequence[bytes]
    ) -> tuple[list[LoggedStateChange], Sequence[bytes]]:
        if not records or self._before.has_none_of(records):
            return records, lines
        kept, new = list[LoggedStateChange](), list[bytes]()
        repeated = self._before.repeated(records, lines)
        for record, line, is_repeated in zip(records, lines, repeated, strict=True):
            if is_repeated:
                self._repeated_bytes += len(line) + 1
            else:
                kept.append(record)
                new.append(line)
        return kept, new

    def result(self) -> ReadRange:
        found = super().result()
        lines = tuple(replace(line, offset=self._offset(line.offset)) for line in found.lines)
        return replace(found, lines=lines, end=self._next_offset, size=found.size - self._repeated_bytes)

    def _offset(self, byte: int) -> int:
        """The offset of the record that has this byte of the content."""
        return self._offsets[bisect_right(self._starts, byte) - 1]
