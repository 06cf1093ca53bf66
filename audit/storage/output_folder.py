"""The output folder of an audit: state, tables, and one commit file for each batch, which alone makes the rest count.

    commits/<batch>.json   what the audit has reached, as `Commit` and its hash; written last
    state/<bucket>/        the sorted runs and other state of each bucket
    tables/                see `audit.storage.table_files`

Files of a batch that was not committed are overwritten when the batch is repeated: it writes the same names.
Which file system they are on is the matter of a `FileStore`.
"""

import fcntl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

import msgspec
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from msgspec import Struct

from audit.records.sorted_runs import Run
from audit.records.vectors import with_schema
from audit.rules.limits import Limits
from audit.storage.commits import BucketState, Commit, StoredFile, content_digest
from audit.storage.file_store import Location, is_remote, open_store
from audit.storage.state_versions import VersionError, upgraded
from audit.storage.table_files import (
    FORMAT,
    TableFile,
    TableSize,
    counting,
    files_of_rows,
    holding_rows,
    size_of,
    table_file,
)
from audit.storage.table_schemas import TABLES
from cluster.errors import DECODE_ERRORS, ClusterError
from cluster.process.files import first_line

_KEPT: Final = 2
"""Commits whose state is kept: Spark may repeat the last batch."""
_PART_ROWS: Final = 1 << 16
REMEDY: Final = "restore the folder from a copy, or audit into a new --output"
_T = TypeVar("_T")


class OutputError(ClusterError):
    """The output folder is not as an audit has left it."""


class _StoredCommit(Struct, frozen=True):
    digest: str
    commit: msgspec.Raw


class OutputFolder:
    """Reads and writes the files of one audit."""

    def __init__(self, location: Location) -> None:
        self.files = open_store(location)
        self._written: dict[str, dict[str, TableSize]] = {}

    @property
    def location(self) -> str:
        """As the constructor takes it, also in another process."""
        return self.files.location

    def path(self, name: str) -> str:
        """A name below the folder, for messages."""
        return f"{self.location.rstrip('/')}/{name}"

    def put(self, name: str, *parts: bytes | pyarrow.Buffer) -> None:
        """Write a file that has these parts one after the other. Raises OutputError."""
        try:
            self.files.write(name, *parts)
        except OSError as error:
            raise OutputError(f"{self.path(name)}: cannot be written: {_why(error)}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else on this machine may write meanwhile, if the folder is of this machine. Raises OutputError."""
        if is_remote(self.location):
            yield
            return
        top = Path(self.location)
        top.mkdir(parents=True, exist_ok=True)
        with (top / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OutputError(
                    f"{self.location}: another audit is writing to it; wait until it has ended, or audit into a new "
                    "--output"
                ) from None
            yield

    def check(self) -> None:
        """Read all that the next batch rests on. Raises OutputError if it is not as the last commit has left it."""
        self._consistent(self._check)

    def _check(self, commit: Commit | None) -> None:
        self._check_kept(commit)
        if commit is None:
            return
        if commit.must_rebuild:
            raise OutputError(f"{self.location}: its state is of an older klamm: {self._rebuild}")
        for bucket in commit.partitions.values():
            for stored in _files_of(bucket):
                self._read(stored, f"{self._rebuild}, or {REMEDY}")

    def check_kept(self) -> None:
        """Read what a rebuild does not make anew. Raises OutputError as `check`."""
        self._consistent(self._check_kept)

    def _check_kept(self, commit: Commit | None) -> None:
        self._check_tables(commit)
        if commit is None:
            return
        if not commit.checkpoint and commit.spark_batch > max(self._checkpoint_has("offsets"), default=-1):
            missing = f"does not have batch {commit.spark_batch} of the commits"
            raise OutputError(f"{self.path('checkpoint')}: {missing}; {REMEDY}")
        for stored in _files_of(commit.cluster):
            self._read(stored)

    def check_tables(self) -> None:
        """Look for all files of the tables. Raises OutputError as `check`; a checkpoint need not be there."""
        self._consistent(self._check_tables)

    def _check_tables(self, commit: Commit | None) -> None:
        """A batch commits here before it does in Spark's checkpoint, and after its offsets are there."""
        last, rebuilds = (-1, 0) if commit is None else (commit.spark_batch, commit.rebuilds)
        done = max(self._checkpoint_has("commits"), default=-1)
        if last < done and not (commit and commit.checkpoint):
            missing = self.path(f"commits/{done + rebuilds}.json")
            raise OutputError(f"{missing}: is missing, though the checkpoint has this batch; {REMEDY}")
        if commit is None:
            return
        for table, size in commit.tables.items():
            found = size_of(self.files_at(commit, table))
            if found != size:
                has, wanted = f"{found.files} files of {found.bytes} bytes", f"{size.files} of {size.bytes}"
                raise OutputError(
                    f"{self.path(f'tables/{table}')}: has {has} instead of {wanted}: is this a whole copy? {REMEDY}"
                )

    def _consistent(self, read: Callable[[Commit | None], _T]) -> _T:
        """What `read` makes of the last commit, again if an audit that runs has committed meanwhile."""
        while True:
            commit = self.last_commit()
            try:
                return read(commit)
            except OutputError:
                if self.last_commit() == commit:
                    raise

    def _checkpoint_has(self, name: str) -> list[int]:
        """The batches in Spark's checkpoint, if it is in this folder."""
        return _numbers(self.files.sizes(f"checkpoint/{name}"))

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
        while numbers := _numbers(self.files.sizes("commits"), ".json"):
            try:
                return self._read_commit(max(numbers))
            except OutputError:
                # An audit that runs may have removed it.
                if max(numbers) in _numbers(self.files.sizes("commits"), ".json"):
                    raise
        return None

    def bucket_count(self, wanted: int) -> int:
        """Into how many buckets the next batch divides partitions: as many as before. Raises OutputError."""
        commit = self.last_commit()
        return wanted if commit is None else commit.bucket_count

    def modified_ns(self) -> int:
        """When the file that was changed last of those that were read had been changed; 0: none was read yet."""
        commit = self.last_commit()
        return 0 if commit is None else commit.modified_ns

    def commit(self, commit: Commit) -> None:
        """Make a batch count, and remove the state that only earlier ones needed."""
        encoded = msgspec.json.encode(commit)
        stored = _StoredCommit(content_digest(encoded), msgspec.Raw(encoded))
        self.put(f"commits/{commit.batch}.json", msgspec.json.encode(stored))
        numbers = _numbers(self.files.sizes("commits"), ".json")
        kept = sorted(numbers)[-_KEPT:]
        for number in set(numbers) - set(kept):
            self.files.remove(f"commits/{number}.json")
        needed = {stored.file for number in kept for stored in self._state_of(number)}
        for name in self.files.sizes("state"):
            if name not in needed and _batch_of(name) <= commit.batch:
                self.files.remove(name)

    def _state_of(self, number: int) -> list[StoredFile]:
        return [stored for state in self._read_commit(number).buckets.values() for stored in _files_of(state)]

    def _read_commit(self, number: int) -> Commit:
        name = f"commits/{number}.json"
        path = self.path(name)
        try:
            stored = msgspec.json.decode(self.files.read(name), type=_StoredCommit)
            if content_digest(bytes(stored.commit)) != stored.digest:
                raise OutputError(f"{path}: was changed after it was written; {REMEDY}")
            return msgspec.convert(upgraded(msgspec.json.decode(stored.commit, type=dict[str, Any])), Commit)
        except VersionError as error:
            raise OutputError(f"{path}: {error}") from error
        except OSError as error:
            raise OutputError(f"{path}: {_why(error)}; {REMEDY}") from error
        except DECODE_ERRORS as error:
            raise OutputError(f"{path}: is not a commit of an audit: {first_line(error)}; {REMEDY}") from error

    # State

    def runs(self, stored: Sequence[StoredFile]) -> list[Run]:
        """These runs, mapped into memory. Raises OutputError."""
        return [Run(self._read_run(run)) for run in stored]

    def _read_run(self, run: StoredFile) -> pyarrow.Table:
        path = self.path(run.file)
        try:
            table = pyarrow.ipc.open_file(self.files.read(run.file, run.first, run.size)).read_all()
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise OutputError(f"{path}: is missing or damaged ({first_line(error)}); {REMEDY}") from error
        if table.num_rows != run.rows:
            raise OutputError(f"{path}: has {table.num_rows} rows instead of {run.rows}; {REMEDY}")
        return table

    def read_state(self, stored: StoredFile) -> bytes:
        """State that is no table. Raises OutputError."""
        return bytes(self._read(stored))

    def _read(self, stored: StoredFile, remedy: str = REMEDY) -> pyarrow.Buffer:
        try:
            data = self.files.read(stored.file, stored.first, stored.size)
        except OSError as error:
            raise OutputError(f"{self.path(stored.file)}: {_why(error)}; {remedy}") from error
        if content_digest(data) != stored.digest:
            raise OutputError(f"{self.path(stored.file)}: was changed after it was written; {remedy}")
        return data

    @property
    def _rebuild(self) -> str:
        return f"run 'klamm audit rebuild --output {self.location}'"

    # Tables

    def write_rows(self, table: str, rows: pyarrow.Table, batch: int, bucket: int) -> None:
        """Write the rows of a table, by the days of their times."""
        known = self._written.setdefault(table, {})
        for day, name, data in files_of_rows(table, rows, batch, bucket):
            self.put(name, data)
            known[day] = known.get(day, TableSize()) + TableSize(1, data.size)

    def take_written(self) -> dict[str, dict[str, TableSize]]:
        """What was written to the tables since this was asked last, by table and day."""
        written, self._written = self._written, {}
        return {table: days for table, days in written.items() if days}

    def all_files(self, table: str, day: str | None = None) -> list[TableFile]:
        """The files of a table, or of a day of it, whether they count or not."""
        folder = f"tables/{table}" if day is None else f"tables/{table}/day={day}"
        found = (table_file(name, size) for name, size in self.files.sizes(folder).items())
        return [file for file in found if file is not None]

    def files_at(self, commit: Commit, table: str, day: str | None = None) -> list[TableFile]:
        """The files that count by this commit, in the order of the batches."""
        return counting(self.all_files(table, day), commit.reached(table))

    def table_files(self, table: str) -> list[TableFile]:
        """The files of a table that count, in the order of the batches."""
        commit = self.last_commit()
        return [] if commit is None else self.files_at(commit, table)

    def rows(
        self, table: str, columns: Sequence[str] | None = None, where: pyarrow.dataset.Expression | None = None
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table, file by file; none if nothing was written to it. Raises OutputError."""
        for part in self._parts(table, columns, where):
            yield from part.to_pylist()

    def _parts(
        self, table: str, columns: Sequence[str] | None = None, where: pyarrow.dataset.Expression | None = None
    ) -> list[pyarrow.Table]:
        def read(commit: Commit | None) -> list[pyarrow.Table]:
            files = [] if commit is None else self.files_at(commit, table)
            return [self.read_file(file, columns, where) for file in files]

        return self._consistent(read)

    def read_file(
        self,
        file: TableFile,
        columns: Sequence[str] | None = None,
        where: pyarrow.dataset.Expression | None = None,
    ) -> pyarrow.Table:
        """What a file of a table has. Raises OutputError."""
        try:
            fragment = FORMAT.make_fragment(pyarrow.BufferReader(self.files.read(file.name)))
            return fragment.to_table(columns=None if columns is None else list(columns), filter=where)
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise OutputError(
                f"{self.path(file.name)}: is missing or damaged ({first_line(error)}); {REMEDY}"
            ) from error

    def read_parts(self, file: TableFile) -> Iterator[pyarrow.Table]:
        """What a file of a table has, some thousand rows at a time, with the columns of today. Raises OutputError."""
        try:
            with pyarrow.parquet.ParquetFile(self.files.read(file.name), page_checksum_verification=True) as parts:
                for batch in parts.iter_batches(_PART_ROWS):
                    yield with_schema(pyarrow.Table.from_batches([batch]), TABLES[file.table].stored)
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise OutputError(
                f"{self.path(file.name)}: is missing or damaged ({first_line(error)}); {REMEDY}"
            ) from error

    def current_table(self, table: str) -> pyarrow.Table:
        """The rows of a revised table that hold, one for each key. Raises OutputError."""
        return holding_rows(table, self._parts(table))

    def current_rows(self, table: str) -> list[dict[str, Any]]:
        """Those of `current_table` as dictionaries, by their keys. Raises OutputError."""
        key = TABLES[table].key
        rows: list[dict[str, Any]] = self.current_table(table).to_pylist()
        return sorted(rows, key=lambda row: tuple((row[name] is not None, row[name]) for name in key))


def _files_of(state: BucketState) -> Iterator[StoredFile]:
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
