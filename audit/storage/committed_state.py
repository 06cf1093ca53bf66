"""Reads and writes the commits of an audit, and the state that they name, from which the next batch continues.

    commits/<batch>.json   what the audit has reached, as `Commit` and its hash; written last
    state/<bucket>/        the sorted runs and other state of each bucket

Files of a batch that was not committed are overwritten when the batch is repeated: it writes the same names.
Which file system they are on is the matter of a `FileStore`.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
import pyarrow
from msgspec import Struct

from audit.records.sealed_runs import SealedSegment
from audit.records.sorted_runs import Runs, SortedRun
from audit.rules.limits import Limits
from audit.storage.commits import BucketState, Commit, StoredFile, content_digest
from audit.storage.file_store import Location, open_store
from audit.storage.state_versions import VersionError, upgraded
from cluster.config.files import first_line
from cluster.model.errors import DECODE_ERRORS, ClusterError

_READ: set[tuple[str, StoredFile]] = set()
"""The sealed files whose hash this process has compared."""
_KEPT: Final = 2
"""Commits whose state is kept: Spark may repeat the last batch."""
REMEDY: Final = "restore the folder from a copy, or audit into a new --output"


class OutputError(ClusterError):
    """The output folder is not as an audit has left it."""


class _StoredCommit(Struct, frozen=True):
    digest: str
    commit: msgspec.Raw


class CommittedState:
    """Reads and writes commits and state below one location."""

    def __init__(self, location: Location) -> None:
        self.files = open_store(location)

    @property
    def location(self) -> str:
        """The location, in a form that the constructor takes in another process too."""
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

    def limits(self, given: Limits | None) -> Limits:
        """The limits of the audit so far, or if there is none yet the given ones. Raises OutputError."""
        commit = self.last_commit()
        if commit is None:
            return given or Limits()
        if given not in {None, commit.limits}:
            raise OutputError(
                f"{self.location}: was audited with other limits; omit --rule-limit, or audit into a new --output"
            )
        return commit.limits

    def last_commit(self) -> Commit | None:
        """The last commit; None if there is none yet. Raises OutputError."""
        while numbers := numbers_of(self.files.sizes("commits"), ".json"):
            try:
                return self._read_commit(max(numbers))
            except OutputError:
                # An audit that runs may have removed it.
                if max(numbers) in numbers_of(self.files.sizes("commits"), ".json"):
                    raise
        return None

    def bucket_count(self, wanted: int) -> int:
        """The number of buckets into which the next batch divides partitions: as many as before. Raises OutputError."""
        commit = self.last_commit()
        return wanted if commit is None else commit.bucket_count

    def modified_ns(self) -> int:
        """The newest time of change of the files that were read, in ns since 1970; 0: none was read yet."""
        commit = self.last_commit()
        return 0 if commit is None else commit.modified_ns

    def commit(self, commit: Commit) -> None:
        """Make a batch count, and then remove the state that only earlier ones needed.

        One file is written as a whole, so after a crash the batch counts either entirely or not at all. Until it is
        there, a repeated batch starts from the state of the commits before, which is why nothing is removed earlier.
        """
        encoded = msgspec.json.encode(commit)
        stored = _StoredCommit(content_digest(encoded), msgspec.Raw(encoded))
        self.put(f"commits/{commit.batch}.json", msgspec.json.encode(stored))
        numbers = numbers_of(self.files.sizes("commits"), ".json")
        kept = sorted(numbers)[-_KEPT:]
        for number in set(numbers) - set(kept):
            self.files.remove(f"commits/{number}.json")
        needed = {stored.file for number in kept for stored in self._state_of(number)}
        for name in self.files.sizes("state"):
            if name not in needed and _batch_of(name) <= commit.batch:
                self.files.remove(name)

    def _state_of(self, number: int) -> list[StoredFile]:
        states = self._read_commit(number).buckets.values()
        return [stored for state in states for stored in (*open_files(state), *sealed_files(state))]

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

    def runs(self, stored: Sequence[StoredFile]) -> list[SortedRun]:
        """Map these runs into memory. Raises OutputError."""
        return [SortedRun(self._read_run(run)) for run in stored]

    def table_runs(self, state: BucketState, table: str) -> Runs:
        """Map the open runs of a table into memory; what is sealed is read when it is asked for. Raises OutputError."""
        runs, sealed = self.runs(state.runs.get(table, ())), state.sealed.get(table)
        if sealed is None:
            return Runs(runs)
        (floors,) = self.runs([sealed.floors])
        return Runs(runs, floors, [SealedSegment(partial(self.read_once, stored)) for stored in sealed.segments])

    def read_once(self, stored: StoredFile) -> pyarrow.Buffer:
        """The content of a part of the state whose hash this process compares when it reads it first, as nothing has at
        the start. Raises OutputError.
        """
        known = (self.location, stored)
        if known in _READ:
            return self._read(stored)
        data = self.read_stored(stored)
        _READ.add(known)
        return data

    def _read(self, stored: StoredFile, remedy: str = REMEDY) -> pyarrow.Buffer:
        try:
            return self.files.read(stored.file, stored.first, stored.size)
        except OSError as error:
            raise OutputError(f"{self.path(stored.file)}: {_why(error)}; {remedy}") from error

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
        """Read state that is no table. Raises OutputError."""
        return bytes(self.read_stored(stored))

    def read_stored(self, stored: StoredFile, remedy: str = REMEDY) -> pyarrow.Buffer:
        """The content of a file of the state. Raises OutputError if it is not what was written."""
        data = self._read(stored, remedy)
        if content_digest(data) != stored.digest:
            raise OutputError(f"{self.path(stored.file)}: was changed after it was written; {remedy}")
        return data


def open_files(state: BucketState) -> Iterator[StoredFile]:
    """Yield the files of a bucket that each batch may read."""
    yield from (run for runs in state.runs.values() for run in runs)
    yield from (sealed.floors for sealed in state.sealed.values())
    if state.file is not None:
        yield state.file


def sealed_files(state: BucketState) -> Iterator[StoredFile]:
    """Yield the files of a bucket that are only read where a record is late."""
    yield from (segment for sealed in state.sealed.values() for segment in sealed.segments)


def _batch_of(name: str) -> int:
    """The batch in the name of a file: its first or last number."""
    numbers = [part for part in PurePosixPath(name).name.split(".")[0].split("-") if part.isdigit()]
    return int(numbers[0]) if numbers else -1


def numbers_of(names: Iterable[str], suffix: str = "") -> list[int]:
    """The numbers that are the names of files, apart from their suffix."""
    paths = map(PurePosixPath, names)
    return [int(path.stem) for path in paths if path.suffix == suffix and path.stem.isdigit()]


def _why(error: OSError) -> str:
    return error.strerror or first_line(error)
