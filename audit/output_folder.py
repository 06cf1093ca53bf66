"""The output folder of an audit: state, tables, and one commit file for each batch, which alone makes the rest count.

    commits/<batch>.json   what the audit has reached, as `Commit` and its hash; written last
    state/<bucket>/        the sorted runs and other state of each bucket
    tables/<table>/day=<date>/<batch>-<bucket>.parquet

Files of a batch that was not committed are overwritten when the batch is repeated: it writes the same names.
Which file system they are on is the matter of a `FileStore`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
import numpy
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from msgspec import Struct

from audit.clock_differences import ClockDifference
from audit.file_store import Location, is_remote, open_store
from audit.limits import Limits
from audit.sorted_runs import Run
from audit.vectors import longs
from cluster.errors import DECODE_ERRORS, ClusterError
from cluster.process.files import first_line

VERSION: Final = 2
"""Of commits, state and tables; another one is refused."""
_KEPT: Final = 2
"""Commits whose state is kept: Spark may repeat the last batch."""
_DAY_MS: Final = 86_400_000
_DAYS_MAX: Final = 32
_REMEDY: Final = "restore the folder from a copy, or audit into a new --output"
_PARQUET: Final = pyarrow.dataset.ParquetFileFormat(
    default_fragment_scan_options=pyarrow.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
)
OTHER_DAYS: Final = "other"
"""Where the rows are whose time is of none of the first `_DAYS_MAX` days of a file: by clocks that cannot be right."""


class OutputError(ClusterError):
    """The output folder is not as an audit has left it."""


class StoredFile(Struct, frozen=True):
    """A file of the state, below the output folder, and the hash of its content. `rows`: of a sorted run."""

    file: str
    digest: str
    rows: int = 0


class TableSize(Struct, frozen=True):
    """What the files of a table sum up to."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: "TableSize") -> "TableSize":
        return TableSize(self.files + other.files, self.bytes + other.bytes)


class BucketState(Struct, frozen=True):
    """What a bucket has kept: sorted runs by table, and for the last bucket a file of its own."""

    runs: dict[str, tuple[StoredFile, ...]] = {}
    file: StoredFile | None = None


class BucketResult(Struct, frozen=True):
    """What judging one bucket of a batch has brought.

    `controllers`: those whose events agents name. `taken`: the last file of each log, and up to which byte it was read.
    `tables`: what was written to them. `error`: why the bucket could not be judged; nothing else holds then.
    """

    bucket: int
    state: BucketState
    tables: dict[str, TableSize] = {}
    error: str = ""
    records: int = 0
    quarantined: int = 0
    controllers: tuple[int, ...] = ()
    modified_ns: int = 0
    taken: dict[str, tuple[str, int]] = {}
    clocks: tuple[ClockDifference, ...] = ()


class Commit(Struct, frozen=True):
    """The state of the audit after a batch. `records` and `quarantined` count all batches."""

    version: int
    batch: int
    query: str
    buckets: dict[str, BucketState]
    records: int = 0
    quarantined: int = 0
    controllers: tuple[int, ...] = ()
    modified_ns: int = 0
    """When the file that was changed last of those that were read had been changed, since 1970."""
    taken: dict[str, tuple[str, int]] = {}
    """Of each log the last file, and up to which byte it was read."""
    tables: dict[str, TableSize] = {}
    checkpoint: str = ""
    """Where Spark's checkpoint is, if not below the output folder."""
    limits: Limits = Limits()
    clocks: tuple[ClockDifference, ...] = ()


class _Version(Struct, frozen=True):
    version: int


class _StoredCommit(Struct, frozen=True):
    digest: str
    commit: msgspec.Raw


class OutputFolder:
    """Reads and writes the files of one audit."""

    def __init__(self, location: Location) -> None:
        self.files = open_store(location)
        self._written: dict[str, TableSize] = {}

    @property
    def location(self) -> str:
        """As the constructor takes it, also in another process."""
        return self.files.location

    def path(self, name: str) -> str:
        """A name below the folder, for messages."""
        return f"{self.location.rstrip('/')}/{name}"

    def _put(self, name: str, data: bytes | pyarrow.Buffer) -> None:
        try:
            self.files.write(name, data)
        except OSError as error:
            raise OutputError(f"{self.path(name)}: cannot be written: {_why(error)}") from error

    def check(self) -> None:
        """Read all that the next batch rests on. Raises OutputError if it is not as the last commit has left it."""
        commit = self.last_commit()
        if commit is None or not commit.checkpoint:
            self._check_checkpoint(commit)
        if commit is None:
            return
        for stored in _files_of(commit):
            self._read(stored)
        for table, size in commit.tables.items():
            sizes = self._table_sizes(table)
            if TableSize(len(sizes), sum(sizes.values())) != size:
                has = f"{len(sizes)} files of {sum(sizes.values())} bytes"
                wanted = f"{size.files} of {size.bytes}"
                raise OutputError(
                    f"{self.path(f'tables/{table}')}: has {has} instead of {wanted}: is this a whole copy? {_REMEDY}"
                )

    def _check_checkpoint(self, commit: Commit | None) -> None:
        """A batch commits here before it does in Spark's checkpoint, and after its offsets are there."""
        begun, done = (_numbers(self.files.sizes(f"checkpoint/{name}")) for name in ("offsets", "commits"))
        last = -1 if commit is None else commit.batch
        if last > max(begun, default=-1):
            raise OutputError(f"{self.path('checkpoint')}: does not have batch {last} of the commits; {_REMEDY}")
        if last < max(done, default=-1):
            missing = self.path(f"commits/{max(done)}.json")
            raise OutputError(f"{missing}: is missing, though the checkpoint has this batch; {_REMEDY}")

    def checkpoint(self, wanted: str = "") -> str:
        """Where Spark's checkpoint of this audit is: where it was before, else where it is `wanted`, else below.

        Raises OutputError if it was elsewhere, and if an object store, which Spark cannot write to unaided, has none.
        """
        commit = self.last_commit()
        if commit is not None and wanted not in {"", commit.checkpoint}:
            known = commit.checkpoint or self.path("checkpoint")
            raise OutputError(f"{self.location}: its checkpoint is {known}, not {wanted}: leave --checkpoint out")
        found = wanted if commit is None else commit.checkpoint
        if not found and is_remote(self.location):
            raise OutputError(
                f"{self.location}: Spark's checkpoint has no place: pass --checkpoint, a folder of this machine, or a "
                "URI that this Spark can write to"
            )
        return found or self.path("checkpoint")

    # Commits

    def limits(self, given: Limits | None) -> Limits:
        """Those of the audit so far, or if there is none yet those that are given. Raises OutputError."""
        commit = self.last_commit()
        if commit is None:
            return given or Limits()
        if given not in {None, commit.limits}:
            raise OutputError(
                f"{self.location}: was audited with other limits; omit --rule-limit, or audit into a new --output"
            )
        return commit.limits

    def last_commit(self) -> Commit | None:
        """None if there is none yet. Raises OutputError."""
        numbers = _numbers(self.files.sizes("commits"), ".json")
        return self._read_commit(max(numbers)) if numbers else None

    def modified_ns(self) -> int:
        """When the file that was changed last of those that were read had been changed; 0: none was read yet."""
        commit = self.last_commit()
        return 0 if commit is None else commit.modified_ns

    def commit(self, commit: Commit) -> None:
        """Make a batch count, and remove the state that only earlier ones needed."""
        encoded = msgspec.json.encode(commit)
        stored = _StoredCommit(_digest(encoded), msgspec.Raw(encoded))
        self._put(f"commits/{commit.batch}.json", msgspec.json.encode(stored))
        numbers = _numbers(self.files.sizes("commits"), ".json")
        kept = sorted(numbers)[-_KEPT:]
        for number in set(numbers) - set(kept):
            self.files.remove(f"commits/{number}.json")
        needed = {stored.file for number in kept for stored in _files_of(self._read_commit(number))}
        for name in self.files.sizes("state"):
            if name not in needed and _batch_of(name) <= commit.batch:
                self.files.remove(name)

    def _read_commit(self, number: int) -> Commit:
        name = f"commits/{number}.json"
        path = self.path(name)
        try:
            stored = msgspec.json.decode(self.files.read(name), type=_StoredCommit)
            found = msgspec.json.decode(stored.commit, type=_Version)
            if _digest(bytes(stored.commit)) != stored.digest:
                raise OutputError(f"{path}: was changed after it was written; {_REMEDY}")
            if found.version != VERSION:
                raise OutputError(f"{path}: version {found.version}, and this klamm reads {VERSION}; {_REMEDY}")
            return msgspec.json.decode(stored.commit, type=Commit)
        except OSError as error:
            raise OutputError(f"{path}: {_why(error)}; {_REMEDY}") from error
        except DECODE_ERRORS as error:
            raise OutputError(f"{path}: is not a commit of an audit: {first_line(error)}; {_REMEDY}") from error

    # State

    def runs(self, stored: Sequence[StoredFile]) -> list[Run]:
        """These runs, mapped into memory. Raises OutputError."""
        return [Run(self._read_run(run)) for run in stored]

    def _read_run(self, run: StoredFile) -> pyarrow.Table:
        path = self.path(run.file)
        try:
            table = pyarrow.ipc.open_file(self.files.read(run.file)).read_all()
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise OutputError(f"{path}: is missing or damaged ({first_line(error)}); {_REMEDY}") from error
        if table.num_rows != run.rows:
            raise OutputError(f"{path}: has {table.num_rows} rows instead of {run.rows}; {_REMEDY}")
        return table

    def write_run(self, bucket: int, table: str, batch: int, rows: pyarrow.Table) -> StoredFile:
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows.unify_dictionaries().combine_chunks())
        return self._write(f"state/{bucket}/{table}-{batch:09d}.arrow", sink.getvalue(), rows.num_rows)

    def read_state(self, stored: StoredFile) -> bytes:
        """A state file of `write_state`. Raises OutputError."""
        return bytes(self._read(stored))

    def write_state(self, bucket: int, batch: int, data: bytes) -> StoredFile:
        return self._write(f"state/{bucket}/state-{batch:09d}.bin", data)

    def _write(self, name: str, data: bytes | pyarrow.Buffer, rows: int = 0) -> StoredFile:
        self._put(name, data)
        return StoredFile(name, _digest(data), rows)

    def _read(self, stored: StoredFile) -> pyarrow.Buffer:
        try:
            data = self.files.read(stored.file)
        except OSError as error:
            raise OutputError(f"{self.path(stored.file)}: {_why(error)}; {_REMEDY}") from error
        if _digest(data) != stored.digest:
            raise OutputError(f"{self.path(stored.file)}: was changed after it was written; {_REMEDY}")
        return data

    # Tables

    def write_rows(self, table: str, rows: pyarrow.Table, batch: int, bucket: int) -> None:
        """Write the rows of a table, by the day of their `at_ms`."""
        for day, part in _by_day(rows):
            sink = pyarrow.BufferOutputStream()
            pyarrow.parquet.write_table(part, sink, compression="zstd", write_page_checksum=True)
            data = sink.getvalue()
            self._put(f"tables/{table}/day={day}/{batch:09d}-{bucket:03d}.parquet", data)
            self._written[table] = self._written.get(table, TableSize()) + TableSize(1, data.size)

    def take_written(self) -> dict[str, TableSize]:
        """What was written to the tables since this was asked last."""
        written, self._written = self._written, {}
        return written

    def table_files(self, table: str) -> list[str]:
        """The names of the files of a table, of committed batches only, in the order of the batches."""
        return sorted(self._table_sizes(table), key=lambda name: (PurePosixPath(name).name, name))

    def _table_sizes(self, table: str) -> dict[str, int]:
        commit = self.last_commit()
        last = -1 if commit is None else commit.batch
        sizes = self.files.sizes(f"tables/{table}")
        return {name: n for name, n in sizes.items() if name.endswith(".parquet") and _batch_of(name) <= last}

    def rows(
        self, table: str, columns: Sequence[str] | None = None, where: pyarrow.dataset.Expression | None = None
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table, file by file; none if nothing was written to it. Raises OutputError."""
        for name in self.table_files(table):
            try:
                fragment = _PARQUET.make_fragment(pyarrow.BufferReader(self.files.read(name)))
                parts = fragment.to_batches(columns=None if columns is None else list(columns), filter=where)
                rows = [row for part in parts for row in part.to_pylist()]
            except (OSError, pyarrow.ArrowInvalid) as error:
                raise OutputError(
                    f"{self.path(name)}: is missing or damaged ({first_line(error)}); {_REMEDY}"
                ) from error
            yield from rows


def _by_day(rows: pyarrow.Table) -> Iterator[tuple[str, pyarrow.Table]]:
    if not rows.num_rows:
        return
    days = numpy.clip(longs(rows["at_ms"]) // _DAY_MS, -1, 100_000)
    distinct, numbers = numpy.unique(days, return_counts=True)
    kept = set(distinct[numpy.argsort(-numbers, kind="stable")[:_DAYS_MAX]].tolist()) - {-1, 100_000}
    for day in sorted(kept):
        yield datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d"), rows.filter(pyarrow.array(days == day))
    others = ~numpy.isin(days, list(kept))
    if others.any():
        yield OTHER_DAYS, rows.filter(pyarrow.array(others))


def _files_of(commit: Commit) -> Iterator[StoredFile]:
    for state in commit.buckets.values():
        yield from (run for runs in state.runs.values() for run in runs)
        if state.file is not None:
            yield state.file


def _batch_of(name: str) -> int:
    """The batch in the name of a file: its first or last number."""
    numbers = [part for part in PurePosixPath(name).name.split(".")[0].split("-") if part.isdigit()]
    return int(numbers[0]) if numbers else -1


def _numbers(names: Iterable[str], suffix: str = "") -> list[int]:
    """The numbers that are the names of files, apart from their suffix."""
    paths = map(PurePosixPath, names)
    return [int(path.stem) for path in paths if path.suffix == suffix and path.stem.isdigit()]


def _why(error: OSError) -> str:
    return error.strerror or first_line(error)


def _digest(data: bytes | pyarrow.Buffer) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
