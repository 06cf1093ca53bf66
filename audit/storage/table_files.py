"""Files of the tables: `tables/<table>/day=<date>/<name>.parquet`, and which of them count.

A batch writes `<batch>-<bucket>.parquet`, which counts from its commit on. A compaction writes
`<first>-<last>-<compaction>.parquet`, which takes the place of the day's files of batches `first` to `last`, and counts
from the commit on that counts this compaction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet
from msgspec import Struct

from audit.records.findings import WITHDRAWN
from audit.records.vectors import longs
from audit.storage.table_schemas import BATCH, TABLES, VERSION

_DAY_MS: Final = 86_400_000
_DAY_MAX: Final = 100_000
_DAYS_MAX: Final = 32
OTHER_DAYS: Final = "other"
"""The day of rows whose time is of none of the first `_DAYS_MAX` days of a file: by clocks that cannot be right."""
SUFFIX: Final = ".parquet"
FORMAT: Final = pyarrow.dataset.ParquetFileFormat(
    default_fragment_scan_options=pyarrow.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class TableSize(Struct, frozen=True):
    """The sums over the files of a table."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: "TableSize") -> "TableSize":
        return TableSize(self.files + other.files, self.bytes + other.bytes)

    def __sub__(self, other: "TableSize") -> "TableSize":
        return TableSize(self.files - other.files, self.bytes - other.bytes)


class Deleted(Struct, frozen=True):
    """Holds what retention has deleted: files of days before `before` that batches up to `batch` wrote."""

    before: str
    batch: int


class Reached(NamedTuple):
    """Holds what is committed: batches up to this one, this number of compactions, and what is deleted of a table."""

    batch: int
    compactions: int
    deleted: Deleted | None


class TableFile(NamedTuple):
    """A file with rows of batches `first` to `last`; `compaction` 0: as the batch wrote it. `name`: below the top."""

    name: str
    bytes: int
    first: int
    last: int
    compaction: int

    @property
    def day(self) -> str:
        return self.name.split("/")[2].removeprefix("day=")

    @property
    def table(self) -> str:
        return self.name.split("/")[1]


def table_file(name: str, size: int) -> TableFile | None:
    """The file with this name; None if it is none of ours."""
    path = PurePosixPath(name)
    numbers = path.stem.split("-")
    if path.suffix != SUFFIX or not all(number.isdecimal() for number in numbers):
        return None
    match [int(number) for number in numbers]:
        case [batch, _]:
            return TableFile(name, size, batch, batch, 0)
        case [first, last, compaction] if first <= last and compaction:
            return TableFile(name, size, first, last, compaction)
    return None


def counting(files: Iterable[TableFile], reached: Reached) -> list[TableFile]:
    """The files that count, in the order of their batches."""
    present = [
        file
        for file in files
        if file.last <= reached.batch and file.compaction <= reached.compactions and not _is_deleted(file, reached)
    ]
    by_day: dict[str, list[TableFile]] = {}
    for file in present:
        if file.compaction:
            by_day.setdefault(file.day, []).append(file)
    kept = [file for file in present if not any(_replaces(other, file) for other in by_day.get(file.day, ()))]
    return sorted(kept, key=lambda file: (file.first, PurePosixPath(file.name).name, file.day))


def _is_deleted(file: TableFile, reached: Reached) -> bool:
    deleted = reached.deleted
    return deleted is not None and file.day < deleted.before and file.last <= deleted.batch


def _replaces(compacted: TableFile, file: TableFile) -> bool:
    within = compacted.first <= file.first and file.last <= compacted.last
    return within and compacted.compaction > file.compaction


def size_of(files: Sequence[TableFile]) -> TableSize:
    return TableSize(len(files), sum(file.bytes for file in files))


def files_of_rows(
    table: str, rows: pyarrow.Table, batch: int, bucket: int
) -> Iterator[tuple[str, str, pyarrow.Buffer]]:
    """The files for these rows of a table: day, name and content of each."""
    known = TABLES[table]
    if known.is_revised:
        rows = latest_rows(with_batch(rows, table, batch), known.key)
    for day, part in rows_by_day(rows, known.days, _DAYS_MAX):
        yield day, f"tables/{table}/day={day}/{batch:09d}-{bucket:03d}{SUFFIX}", encoded(table, [part])


def encoded(table: str, parts: Iterable[pyarrow.Table]) -> pyarrow.Buffer:
    """Encode these rows as a file; each part is a row group."""
    sink, writer = pyarrow.BufferOutputStream(), None
    for part in parts:
        described = part.replace_schema_metadata(metadata(table))
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(
                sink, described.schema, compression="zstd", write_page_checksum=True, **_encodings(described.schema)
            )
        writer.write_table(described)
    assert writer is not None, "a file has rows"
    writer.close()
    return sink.getvalue()


def _encodings(schema: pyarrow.Schema) -> dict[str, Any]:
    """The encodings of columns. Texts repeat, numbers grow: a third less bytes than by Arrow's defaults."""
    texts = [field.name for field in schema if not _is_number(field.type)]
    return {
        "use_dictionary": texts,
        "column_encoding": {field.name: "DELTA_BINARY_PACKED" for field in schema if _is_number(field.type)},
    }


def _is_number(kind: pyarrow.DataType) -> bool:
    return bool(pyarrow.types.is_integer(kind))


def metadata(table: str) -> Mapping[str, str]:
    """Make what each file says of itself."""
    return {"klamm.table": table, "klamm.version": str(VERSION)}


def with_batch(rows: pyarrow.Table, table: str, batch: int) -> pyarrow.Table:
    stored = TABLES[table].stored
    return rows.append_column(BATCH, pyarrow.array(numpy.full(rows.num_rows, batch), pyarrow.int64())).cast(stored)


def latest_rows(rows: pyarrow.Table, key: Sequence[str]) -> pyarrow.Table:
    """The row of the highest batch for each key, of these the last; in the order of the rows."""
    place = pyarrow.array(numpy.arange(rows.num_rows))
    by_batch = [(BATCH, "ascending"), ("place", "ascending")]
    ordered = rows.select([*key, BATCH]).append_column("place", place).sort_by(by_batch)
    kept = ordered.group_by(list(key), use_threads=False).aggregate([("place", "last")])["place_last"]
    return rows.take(pyarrow.array(numpy.sort(kept.to_numpy())))


def holding_rows(table: str, written: Iterable[pyarrow.Table]) -> pyarrow.Table:
    """The rows of files of a revised table, in the order of the batches, that hold: one for each key."""
    rows = pyarrow.concat_tables([TABLES[table].stored.empty_table(), *written])
    latest = latest_rows(rows, TABLES[table].key)
    return latest.filter(pyarrow.compute.field("status") != WITHDRAWN).drop_columns([BATCH])


def rows_by_day(
    rows: pyarrow.Table, columns: Sequence[str], days_max: int | None = None
) -> Iterator[tuple[str, pyarrow.Table]]:
    """Divide rows by the day of the first of these columns that a row has. `days_max`: the largest days; the others
    are in OTHER_DAYS.
    """
    if not rows.num_rows:
        return
    time = pyarrow.compute.coalesce(*(rows[column] for column in columns))
    days = numpy.clip(longs(time) // _DAY_MS, -1, _DAY_MAX)
    distinct, numbers = numpy.unique(days, return_counts=True)
    if len(distinct) == 1:
        day = int(distinct[0])
        yield day_name(day) if 0 <= day < _DAY_MAX else OTHER_DAYS, rows
        return
    kept = set(distinct[numpy.argsort(-numbers, kind="stable")[:_DAYS_MAX]].tolist()) - {-1, _DAY_MAX}
    for day in sorted(kept):
        yield day_name(day), rows.filter(pyarrow.array(days == day))
    others = ~numpy.isin(days, list(kept))
    if others.any():
        yield OTHER_DAYS, rows.filter(pyarrow.array(others))


def day_name(day: int) -> str:
    """The name of a day. `day`: days since 1970."""
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")
