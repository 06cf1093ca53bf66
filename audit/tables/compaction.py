"""Makes few files of many, and deletes old days: the tables stay quick to read however long an audit runs.

Files of a day are merged in the manner of a log-structured merge-tree: the newest with those before them, as long as
these are not much larger. Of revised rows only the last of each key stays. Nothing is changed in place: a commit says
which files count, and only then are those deleted that do not. What a crash leaves does not count, and is deleted when
the next audit starts (`delete_strays`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow
import pyarrow.parquet
from msgspec.structs import replace

from audit.records.vectors import in_one_chunk
from audit.storage.commits import Commit
from audit.storage.committed_state import OutputError
from audit.storage.file_store import is_remote
from audit.storage.output_folder import OutputFolder
from audit.storage.table_files import (
    SUFFIX,
    Deleted,
    TableFile,
    TableSize,
    counting,
    encoded,
    latest_rows,
    size_of,
)
from audit.storage.table_schemas import TABLES
from cluster.config.files import first_line

if TYPE_CHECKING:
    from audit.tables.delta_tables import PublishedFiles

FILES_MAX: Final = 64
"""Files of one table and day that are left until they are merged."""
MERGES_MAX: Final = 4
"""Merges in one batch."""
BYTES_MAX: Final = 64 << 20
"""Bytes of the files that are merged into one; a larger file is left as it is."""
_GROWTH: Final = 3
_GROUP_ROWS: Final = 1 << 17
"""Rows of a table that are not revised are copied that many at a time."""


class Compaction(NamedTuple):
    """Holds what a commit says about a compaction, and the files that are to be deleted afterwards."""

    commit: Commit
    unneeded: list[str]


def compact_some(folder: OutputFolder, before: Commit, now: Commit, written: Mapping[str, Iterable[str]]) -> Compaction:
    """Merge files of the batches before this one where a day has many, and those of one day that is over.

    `written`: the days of each table that the batch has written to. Raises OutputError.
    """
    chosen: list[list[TableFile]] = []
    for table in sorted(before.tables):
        by_day = _by_day(folder.files_at(before, table))
        days = set(written.get(table, ()))
        sealed = [day for day in sorted(by_day)[:-1] if day not in days]
        turn = [sealed[now.batch % len(sealed)]] if sealed else []
        limits = dict.fromkeys(turn, 1) | dict.fromkeys(sorted(days & set(by_day)), FILES_MAX)
        chosen += [mergeable(by_day[day]) for day, limit in limits.items() if len(by_day[day]) > limit]
    chosen.sort(key=len, reverse=True)
    return _merged(folder, now, [files for files in chosen[:MERGES_MAX] if len(files) > 1])


def compact_all(folder: OutputFolder, commit: Commit) -> Compaction:
    """Merge all files of each day into as few as can be. Raises OutputError."""
    unneeded: list[str] = []
    while True:
        chosen = []
        for table in sorted(commit.tables):
            by_day = _by_day(folder.files_at(commit, table))
            chosen += [files for day in sorted(by_day) if len(files := mergeable(by_day[day], every=True)) > 1]
        if not chosen:
            return Compaction(commit, unneeded)
        commit, more = _merged(folder, commit, chosen)
        unneeded += more


def mergeable(files: Sequence[TableFile], every: bool = False) -> list[TableFile]:
    """The newest of these files of one day, with those before them, by whole batches, as long as it is worth while.

    `every`: also with larger ones, and not only the newest.
    """
    units = _units(files)
    while every and len(units) > 1 and units[-1].bytes + units[-2].bytes > BYTES_MAX:
        units.pop()
    found: list[TableFile] = []
    total = 0
    for unit in reversed(units):
        if found and (total + unit.bytes > BYTES_MAX or (not every and unit.bytes > _GROWTH * total)):
            break
        found = [*unit.files, *found]
        total += unit.bytes
    return found


class _Unit(NamedTuple):
    files: list[TableFile]
    bytes: int


def _units(files: Sequence[TableFile]) -> list[_Unit]:
    """The files of a batch together; compacted ones alone."""
    found: dict[tuple[int, int], list[TableFile]] = {}
    for file in files:
        found.setdefault((file.first, file.last), []).append(file)
    return [_Unit(part, size_of(part).bytes) for _, part in sorted(found.items())]


def _merged(folder: OutputFolder, commit: Commit, chosen: Sequence[Sequence[TableFile]]) -> Compaction:
    if not chosen:
        return Compaction(commit, [])
    compaction, tables = commit.compactions + 1, dict(commit.tables)
    for files in chosen:
        table, first, last = files[0].table, files[0].first, max(file.last for file in files)
        name = f"tables/{table}/day={files[0].day}/{first:09d}-{last:09d}-{compaction:09d}{SUFFIX}"
        data = encoded(table, _rows(folder, table, files))
        folder.put(name, data)
        tables[table] = tables[table] - size_of(files) + TableSize(1, data.size)
    unneeded = [file.name for files in chosen for file in files]
    return Compaction(replace(commit, tables=tables, compactions=compaction), unneeded)


def _rows(folder: OutputFolder, table: str, files: Sequence[TableFile]) -> Iterator[pyarrow.Table]:
    """The rows of these files, in parts."""
    parts: list[pyarrow.Table] = []
    for file in files:
        parts.append(folder.read_file(file))
        if not TABLES[table].is_revised and sum(part.num_rows for part in parts) >= _GROUP_ROWS:
            yield in_one_chunk(parts)
            parts = []
    if parts:
        rows = in_one_chunk(parts)
        yield latest_rows(rows, TABLES[table].key) if TABLES[table].is_revised else rows


def delete_old(folder: OutputFolder, commit: Commit, keep_days: int, today: date) -> Compaction:
    """Delete the days of records and timelines that are older than `keep_days`. Raises OutputError."""
    oldest = date.fromordinal(max(1, today.toordinal() - keep_days)).isoformat()
    tables, deleted, unneeded = dict(commit.tables), dict(commit.deleted), []
    for table in sorted(tables):
        if TABLES[table].keeps:
            continue
        old = [file for file in folder.files_at(commit, table) if file.day < oldest]
        if old:
            deleted[table] = Deleted(oldest, commit.batch)
            tables[table] -= size_of(old)
            unneeded += [file.name for file in old]
    return Compaction(replace(commit, tables=tables, deleted=deleted), unneeded)


def delete_strays(folder: OutputFolder) -> None:
    """Delete what batches, compactions and rebuilds left that were killed, and publish what they did not. Only before
    an audit: none may be running. Raises OutputError.
    """
    commit = folder.last_commit()
    if commit is not None and is_published(folder):
        publisher()(folder, commit)
    for table in TABLES:
        present = folder.all_files(table)
        if commit is None:
            # Of the first batch, which may have had more buckets than it will have. Later ones had a commit before.
            needed = {file.name for file in present if file.last}
        else:
            needed = {file.name for file in counting(present, commit.reached(table))}
        delete_files(folder, (file.name for file in present if file.name not in needed))
        delete_files(folder, (name for name in folder.files.sizes(f"tables/{table}") if name.endswith(".tmp")))


def delete_files(folder: OutputFolder, names: Iterable[str]) -> None:
    """Delete files that do not count any more; only after the commit."""
    for name in names:
        folder.files.remove(name)


def commit_and_delete(folder: OutputFolder, done: Compaction, *, publish: bool = False) -> None:
    """Commit, bring the Delta tables up to date if there are any or `publish` asks for them, and delete what does not
    count any more: last, since readers of Delta open the files that the log names. Raises OutputError.
    """
    folder.commit(done.commit)
    if publish or is_published(folder):
        publisher()(folder, done.commit)
    delete_files(folder, done.unneeded)


def publish_last(folder: OutputFolder) -> None:
    """Publish the last commit as Delta tables: a run that is to do so may find nothing new, and commit nothing.

    Raises OutputError, also if later commits could not be published.
    """
    if is_remote(folder.location):
        raise OutputError(f"{folder.location}: Delta tables are published only in a folder of this machine")
    publish, commit = publisher(), folder.last_commit()
    if commit is not None:
        publish(folder, commit)


def is_published(folder: OutputFolder) -> bool:
    """Whether there are Delta tables: from then on each commit is published."""
    return not is_remote(folder.location) and any(Path(folder.path("tables")).glob("*/_delta_log"))


def publisher() -> "Callable[[OutputFolder, Commit], dict[str, PublishedFiles]]":
    """The function that publishes a commit as Delta tables. Raises OutputError without the extra `audit-delta`."""
    try:
        from audit.tables.delta_tables import publish_tables  # noqa: PLC0415 - most audits have no Delta tables.
    except ImportError as error:
        raise OutputError(
            f"Delta tables cannot be written ({first_line(error)}): install klamm with the extra 'audit-delta'"
        ) from error
    return publish_tables


def _by_day(files: Iterable[TableFile]) -> dict[str, list[TableFile]]:
    found: dict[str, list[TableFile]] = {}
    for file in files:
        found.setdefault(file.day, []).append(file)
    return found
