"""The output folder of an audit: commits, state and tables, and whether they are as the audit has left them.

    commits/, state/       see `audit.storage.committed_state`
    tables/                see `audit.storage.table_files`
    checkpoint/            Spark's own, unless it is elsewhere

A commit alone makes the rest count.
"""

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow
import pyarrow.dataset
import pyarrow.parquet

from audit.records.vectors import with_schema
from audit.storage.checkpoints import LocalCheckpoint
from audit.storage.commits import BucketState, Commit
from audit.storage.committed_state import REMEDY, CommittedState, OutputError, numbers_of, open_files, sealed_files
from audit.storage.file_store import Location, is_remote, open_store
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
from cluster.config.files import first_line

_PART_ROWS: Final = 1 << 16
_T = TypeVar("_T")


class OutputFolder(CommittedState):
    """Reads and writes the files of one audit."""

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        self._written: dict[str, dict[str, TableSize]] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others on this machine from writing meanwhile, if the folder is on it. Raises OutputError."""
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
            self._check_state(bucket, f"{self._rebuild}, or {REMEDY}")

    def _check_state(self, bucket: BucketState, remedy: str) -> None:
        """Read what is open, and look whether what is sealed is there: its content is compared when it is read."""
        for stored in open_files(bucket):
            self.read_stored(stored, remedy)
        sealed = list(sealed_files(bucket))
        sizes = self.files.sizes("state") if sealed else {}
        for stored in sealed:
            if sizes.get(stored.file, -1) < stored.first + (stored.size or 0):
                raise OutputError(f"{self.path(stored.file)}: is missing or cut short; {remedy}")

    def check_kept(self) -> None:
        """Read what a rebuild does not make itself. Raises OutputError as `check`."""
        self._consistent(self._check_kept)

    def _check_kept(self, commit: Commit | None) -> None:
        self._check_tables(commit)
        if commit is None:
            return
        # Where the commit has the offsets, what is missing of the checkpoint is written again.
        is_lost = commit.spark_batch > max(self._checkpoint_has("offsets"), default=-1)
        if is_lost and not commit.checkpoint and not commit.offsets:
            missing = f"does not have batch {commit.spark_batch} of the commits"
            raise OutputError(f"{self.path('checkpoint')}: {missing}; {REMEDY}")
        self._check_state(commit.cluster, REMEDY)

    def check_tables(self) -> None:
        """Look for all files of the tables. Raises OutputError as `check`; a checkpoint need not be there."""
        self._consistent(self._check_tables)

    def _check_tables(self, commit: Commit | None) -> None:
        """Check the tables. A batch commits here before Spark's checkpoint does, and after its offsets are there."""
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
        """Do `read` on the last commit, and again if an audit that runs has committed meanwhile."""
        while True:
            commit = self.last_commit()
            try:
                return read(commit)
            except OutputError:
                if self.last_commit() == commit:
                    raise

    def _checkpoint_has(self, name: str) -> list[int]:
        """The batches in Spark's checkpoint, if it is in this folder."""
        return numbers_of(self.files.sizes(f"checkpoint/{name}"))

    def checkpoint(self, wanted: str = "") -> str:
        """Find where Spark's checkpoint of this audit is: where it was before, else where it is `wanted`, else below.

        Raises OutputError if it was elsewhere, and if an object store, which Spark cannot write to unaided, has none.
        """
        commit, below = self.last_commit(), self.path("checkpoint")
        given = _absolute(wanted)
        if commit is not None:
            known = commit.checkpoint or below
            if given not in {"", known}:
                raise OutputError(f"{self.location}: its checkpoint is {known}, not {given}: leave --checkpoint out")
            return known
        if not given and is_remote(self.location):
            raise OutputError(
                f"{self.location}: Spark's checkpoint has no place: pass --checkpoint, a folder of this machine, or a "
                "URI that this Spark can write to"
            )
        return given or below

    def repair_checkpoint(self) -> list[str]:
        """Write again what a power failure has taken of Spark's checkpoint; returns the names. Raises OutputError."""
        commit = self.last_commit()
        if commit is None:
            return []
        checkpoint = LocalCheckpoint.at(commit.checkpoint or self.path("checkpoint"))
        try:
            return [] if checkpoint is None else checkpoint.repair(commit)
        except OSError as error:
            raise OutputError(f"{self.path('checkpoint')}: cannot be written: {first_line(error)}") from error

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
        """Return what was written to the tables since the last call, by table and day."""
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
        """Read a file of a table. Raises OutputError."""
        try:
            fragment = FORMAT.make_fragment(pyarrow.BufferReader(self.files.read(file.name)))
            return fragment.to_table(columns=None if columns is None else list(columns), filter=where)
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise OutputError(
                f"{self.path(file.name)}: is missing or damaged ({first_line(error)}); {REMEDY}"
            ) from error

    def read_parts(self, file: TableFile) -> Iterator[pyarrow.Table]:
        """Read a file of a table, some thousand rows at a time, with the columns of today. Raises OutputError."""
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

    def holding_at(self, commit: Commit, table: str) -> pyarrow.Table:
        """The rows of a revised table that hold by this commit. Raises OutputError."""
        return holding_rows(table, (self.read_file(file) for file in self.files_at(commit, table)))

    def current_rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of `current_table` as dictionaries, by their keys. Raises OutputError."""
        key = TABLES[table].key
        rows: list[dict[str, Any]] = self.current_table(table).to_pylist()
        return sorted(rows, key=lambda row: tuple((row[name] is not None, row[name]) for name in key))


def _absolute(location: str) -> str:
    """A folder's path, or its URI, whatever the working directory is; empty if it is empty."""
    if not location or is_remote(location):
        return location.rstrip("/")
    return open_store(location).location
