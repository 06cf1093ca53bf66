"""A Spark data source that tails trees of state-change logs by byte offsets.

An offset is a map from file to the bytes taken of it, always the end of a line, so a torn tail stays for a
later batch and each line is read exactly once: the same two offsets always give the same lines. (Spark's own
file source reads a file once and never sees what is appended to it afterwards.)

Rows are (key, value). Values are JSON; keys say whom they concern:
`partition/<topic>/<partition>` a record of that partition, `controller-epochs` a record of a controller's epoch,
`incarnation/<node>/<incarnation>` a segment of consecutive lines, `quarantine/<file>` a line that is no record.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from audit.schema import SOURCE
from state_log.chain import ChainSegment, extend
from state_log.reader import find_segments, numbered_lines
from state_log.record import Kind, LoggedStateChange, MalformedLine, by_partition, decode_line

FORMAT: Final = "klamm-state-changes"
PARTITION, CONTROLLER_EPOCHS, INCARNATION, QUARANTINE = "partition", "controller-epochs", "incarnation", "quarantine"

_ROWS_PER_BATCH: Final = 10_000
_TAIL_BYTES: Final = 1 << 16

Row = tuple[str, bytes]


class QuarantinedLine(msgspec.Struct, frozen=True):
    """A line that is no record; bytes that are no text are escaped. `offset` is where it begins, in bytes."""

    file: str
    offset: int
    line: str
    why: str


class StateChangeSource(DataSource):
    """Options: `directories` (a JSON list of folders, searched in depth), `max_bytes` of a batch, its `tasks`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return SOURCE

    def streamReader(self, schema: StructType) -> "StateChangeReader":  # noqa: N802
        directories = [Path(name) for name in json.loads(self.options["directories"])]
        return StateChangeReader(directories, int(self.options["max_bytes"]), int(self.options["tasks"]))


@dataclass
class LogRanges(InputPartition):
    """What one task reads: (file, first byte, byte after the last)."""

    ranges: Sequence[tuple[str, int, int]]


class StateChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches by file sizes on the driver; reads them in tasks. Method names are Spark's."""

    def __init__(self, directories: Sequence[Path], max_bytes: int, tasks: int) -> None:
        self._directories = directories
        self._max_bytes = max_bytes
        self._tasks = tasks
        self._stop_at: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = _line_ends(self._directories)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Where the next batch ends. Files are taken in the order of their names, a file before its successor."""
        available = _line_ends(self._directories) if self._stop_at is None else self._stop_at
        budget = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        end = {name: taken for name, taken in start.items() if not _was_deleted(name)}
        for name, last in available.items():
            first = start.get(name, 0)
            if last <= first:
                continue
            if budget is not None and last - first > budget:
                end[name] = _line_end(Path(name), first, first + budget, last)
                break
            end[name] = last
            budget = None if budget is None else budget - (last - first)
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[LogRanges]:
        """Ranges spread over the tasks, the largest first to the one with least to do."""
        ranges = [(name, start.get(name, 0), last) for name, last in end.items() if last > start.get(name, 0)]
        shares: list[list[tuple[str, int, int]]] = [[] for _ in range(min(self._tasks, len(ranges)))]
        sizes = [0] * len(shares)
        for name, first, last in sorted(ranges, key=lambda r: (r[1] - r[2], r[0])):
            least = sizes.index(min(sizes))
            shares[least].append((name, first, last))
            sizes[least] += last - first
        return [LogRanges(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, LogRanges), "Spark hands back what `partitions` made"
        keys: list[str] = []
        values: list[bytes] = []
        for name, first, last in partition.ranges:
            for key, value in rows_of(Path(name), first, last):
                keys.append(key)
                values.append(value)
                if len(keys) >= _ROWS_PER_BATCH:
                    yield _batch(keys, values)
                    keys, values = [], []
        if keys:
            yield _batch(keys, values)


def rows_of(path: Path, start: int, end: int) -> Iterator[Row]:
    """The rows of the lines of one file between two byte offsets that are line ends."""
    segment: ChainSegment | None = None
    for offset, line in numbered_lines(path, start, end):
        record = decode_line(line)
        if isinstance(record, MalformedLine):
            text = line.decode("utf-8", "backslashreplace")
            yield f"{QUARANTINE}/{path}", _encode(QuarantinedLine(str(path), offset, text, record.why))
            continue
        longer = extend(segment, record, line)
        if longer is None:
            assert segment is not None, "any line can begin a segment"
            yield _segment_row(segment)
            longer = extend(None, record, line)
        segment = longer
        yield from _record_rows(record, line)
    if segment is not None:
        yield _segment_row(segment)


def _record_rows(record: LoggedStateChange, line: bytes) -> Iterator[Row]:
    if record.kind is Kind.CONTROLLER:
        yield CONTROLLER_EPOCHS, line
    for tp, part in by_partition(record):
        yield f"{PARTITION}/{tp.topic}/{tp.partition}", line if part is record else _encode(part)


def _segment_row(segment: ChainSegment) -> Row:
    return f"{INCARNATION}/{segment.node}/{segment.incarnation}", _encode(segment)


def _batch(keys: list[str], values: list[bytes]) -> pyarrow.RecordBatch:
    return pyarrow.record_batch({"key": pyarrow.array(keys), "value": pyarrow.array(values, pyarrow.binary())})


def _line_ends(directories: Sequence[Path]) -> dict[str, int]:
    """Every file and where its last complete line ends.

    All names are listed before the first size is taken: a file that has a successor on the list is complete,
    so no batch can hold a successor's lines without those before them.
    """
    paths = find_segments(directories)
    ends = {}
    for path in paths:
        try:
            ends[str(path)] = _line_end(path, 0, path.stat().st_size, None)
        except FileNotFoundError:
            continue
    return ends


def _line_end(path: Path, first: int, wanted: int, last: int | None) -> int:
    """The end of the last line that ends at or before `wanted`; else, if `last` is given, of the next one after it."""
    with path.open("rb") as file:
        high = wanted
        while high > first:
            low = max(first, high - _TAIL_BYTES)
            file.seek(low)
            newline = file.read(high - low).rfind(b"\n")
            if newline >= 0:
                return low + newline + 1
            high = low
        if last is None:
            return first
        file.seek(wanted)
        # A single line is longer than a whole batch may be: it is taken all the same.
        return min(wanted + len(file.readline()), last)


def _was_deleted(name: str) -> bool:
    """Deleted, and not out of sight because its folder is."""
    path = Path(name)
    return not path.exists() and path.parent.exists()


_encode = msgspec.json.Encoder().encode
