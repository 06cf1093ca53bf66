"""The output folder of an audit: state, tables, and one commit file for each batch, which alone makes the rest count.

    commits/<batch>.json   what the audit has reached, as `Commit`; written last, by renaming
    state/<bucket>/        the sorted runs and other state of each bucket
    tables/<table>/day=<date>/<batch>-<bucket>.parquet

Files of a batch that was not committed are overwritten when the batch is repeated: it writes the same names.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from msgspec import Struct

from audit.sorted_runs import Run
from audit.vectors import longs
from cluster.errors import DECODE_ERRORS, ClusterError

VERSION: Final = 1
"""Of commits, state and tables; another one is refused."""
_KEPT: Final = 2
"""Commits whose state is kept: Spark may repeat the last batch."""
_DAY_MS: Final = 86_400_000
_DAYS_MAX: Final = 32
OTHER_DAYS: Final = "other"
"""Where the rows are whose time is of none of the first `_DAYS_MAX` days of a file: by clocks that cannot be right."""


class OutputError(ClusterError):
    """The output folder is not as an audit has left it."""


class StoredRun(Struct, frozen=True):
    """A file of a sorted run, below the output folder."""

    file: str
    rows: int


class BucketState(Struct, frozen=True):
    """What a bucket has kept: sorted runs by table, and for the last bucket a file of its own."""

    runs: dict[str, tuple[StoredRun, ...]] = {}
    file: str | None = None


class BucketResult(Struct, frozen=True):
    """What judging one bucket of a batch has brought.

    `controllers`: those whose events agents name. `taken`: the last file of each log, and up to which byte it was read.
    """

    bucket: int
    state: BucketState
    records: int = 0
    quarantined: int = 0
    controllers: tuple[int, ...] = ()
    taken: dict[str, tuple[str, int]] = {}


class Commit(Struct, frozen=True):
    """The state of the audit after a batch. `records` and `quarantined` count all batches."""

    version: int
    batch: int
    query: str
    buckets: dict[str, BucketState]
    records: int = 0
    quarantined: int = 0
    controllers: tuple[int, ...] = ()
    taken: dict[str, tuple[str, int]] = {}
    """Of each log the last file, and up to which byte it was read."""


class OutputFolder:
    """Reads and writes the files of one audit."""

    def __init__(self, top: Path) -> None:
        self.top = top

    # Commits

    def last_commit(self) -> Commit | None:
        """None if there is none yet. Raises OutputError."""
        numbers = self._commits()
        return self._read_commit(max(numbers)) if numbers else None

    def commit(self, commit: Commit) -> None:
        """Make a batch count, and remove the state that only earlier ones needed."""
        target = self.top / "commits" / f"{commit.batch}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, msgspec.json.encode(commit))
        kept = sorted(self._commits())[-_KEPT:]
        for number in set(self._commits()) - set(kept):
            (target.parent / f"{number}.json").unlink(missing_ok=True)
        needed = {file for number in kept for file in _files_of(self._read_commit(number))}
        for path in (self.top / "state").glob("*/*"):
            if str(path.relative_to(self.top)) not in needed and _batch_of(path) <= commit.batch:
                path.unlink(missing_ok=True)

    def _commits(self) -> list[int]:
        return [int(path.stem) for path in (self.top / "commits").glob("*.json") if path.stem.isdigit()]

    def _read_commit(self, number: int) -> Commit:
        path = self.top / "commits" / f"{number}.json"
        try:
            commit = msgspec.json.decode(path.read_bytes(), type=Commit)
        except DECODE_ERRORS as error:
            raise OutputError(f"{path}: is not a commit of an audit: {error}") from error
        if commit.version != VERSION:
            raise OutputError(
                f"{path}: version {commit.version}, and this klamm reads {VERSION}; audit into a new --output"
            )
        return commit

    # State

    def runs(self, stored: Sequence[StoredRun]) -> list[Run]:
        """These runs, mapped into memory. Raises OutputError."""
        return [Run(self._read_run(run)) for run in stored]

    def _read_run(self, run: StoredRun) -> pyarrow.Table:
        path = self.top / run.file
        try:
            with pyarrow.memory_map(str(path)) as source:
                table = pyarrow.ipc.open_file(source).read_all()
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise OutputError(f"{path}: is missing or damaged ({error}); audit into a new --output") from error
        if table.num_rows != run.rows:
            raise OutputError(f"{path}: has {table.num_rows} rows instead of {run.rows}; audit into a new --output")
        return table

    def write_run(self, bucket: int, table: str, batch: int, rows: pyarrow.Table) -> StoredRun:
        path = self.top / "state" / str(bucket) / f"{table}-{batch:09d}.arrow"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        with pyarrow.ipc.new_file(str(temporary), rows.schema) as writer:
            writer.write_table(rows.unify_dictionaries().combine_chunks())
        temporary.replace(path)
        return StoredRun(str(path.relative_to(self.top)), rows.num_rows)

    def read_state(self, file: str) -> bytes:
        """A state file of `write_state`. Raises OutputError."""
        try:
            return (self.top / file).read_bytes()
        except OSError as error:
            raise OutputError(f"{self.top / file}: {error.strerror}; audit into a new --output") from error

    def write_state(self, bucket: int, batch: int, data: bytes) -> str:
        path = self.top / "state" / str(bucket) / f"state-{batch:09d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data)
        return str(path.relative_to(self.top))

    # Tables

    def write_rows(self, table: str, rows: pyarrow.Table, batch: int, bucket: int) -> None:
        """Write the rows of a table, by the day of their `at_ms`."""
        for day, part in _by_day(rows):
            path = self.top / "tables" / table / f"day={day}" / f"{batch:09d}-{bucket:03d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{os.getpid()}.tmp")
            pyarrow.parquet.write_table(part, temporary, compression="zstd")
            temporary.replace(path)

    def table_files(self, table: str) -> list[Path]:
        """The files of a table, of committed batches only, in the order of the batches."""
        commit = self.last_commit()
        last = -1 if commit is None else commit.batch
        paths = [path for path in (self.top / "tables" / table).glob("day=*/*.parquet") if _batch_of(path) <= last]
        return sorted(paths, key=lambda path: (path.name, path))

    def rows(
        self, table: str, columns: Sequence[str] | None = None, where: pyarrow.dataset.Expression | None = None
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table, file by file; none if nothing was written to it."""
        for path in self.table_files(table):
            dataset = pyarrow.dataset.dataset(path, format="parquet")
            for part in dataset.to_batches(columns=None if columns is None else list(columns), filter=where):
                yield from part.to_pylist()


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


def _files_of(commit: Commit) -> Iterator[str]:
    for state in commit.buckets.values():
        yield from (run.file for runs in state.runs.values() for run in runs)
        if state.file is not None:
            yield state.file


def _batch_of(path: Path) -> int:
    """The batch in the name of a file: its first or last number."""
    numbers = [part for part in path.name.split(".")[0].split("-") if part.isdigit()]
    return int(numbers[0]) if numbers else -1


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


Buckets = Mapping[str, BucketState]
