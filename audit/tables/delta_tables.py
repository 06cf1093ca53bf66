"""Publishes the committed tables as Delta tables, so that a lakehouse reads each row once, and none that was withdrawn.

    tables/<table>/_delta_log/                        the log of Delta, by `deltalake`
    tables/<table>/_current/day=<date>/<digest>.parquet   a revised table: the rows that hold

A table whose rows are written once is published by its own files; nothing is copied. Of a revised table the rows that
hold are written again where a day of them has changed. The audit itself reads none of this: a publication that a crash
took, or that was switched off for a while, is made up for by the next one.
"""

import json
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow
import pyarrow.parquet
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from audit.storage.commits import Commit, content_digest
from audit.storage.committed_state import OutputError
from audit.storage.file_store import is_remote
from audit.storage.output_folder import OutputFolder
from audit.storage.table_files import SUFFIX, encoded, rows_by_day
from audit.storage.table_schemas import TABLES, Table
from cluster.config.files import first_line

APPLICATION: Final = "klamm-audit"
"""The application of Delta's transactions; their version is the batch."""
_LOG, _CURRENT = "_delta_log", "_current"


class PublishedFiles(NamedTuple):
    """What changed in a table: data files that were added to its log, and removed from it."""

    added: int
    removed: int


class _Change(NamedTuple):
    """The data files that a version adds and removes."""

    adds: list[AddAction]
    removes: list[RemoveAction]


class _DataFile(NamedTuple):
    size: int
    rows: int


def publish_tables(folder: OutputFolder, commit: Commit) -> dict[str, PublishedFiles]:
    """Make the Delta table of each table say what this commit says; return those that changed. Tables without rows are
    there, too.

    Only the one that writes to the folder may do it. Raises OutputError, also for an output that is not on this
    machine.
    """
    if is_remote(folder.location):
        raise OutputError(f"{folder.location}: Delta tables are published only in a folder of this machine")
    done = {name: _publish(folder, commit, TABLES[name]) for name in sorted(TABLES)}
    return {name: published for name, published in done.items() if published != PublishedFiles(0, 0)}


def _publish(folder: OutputFolder, commit: Commit, table: Table) -> PublishedFiles:
    wanted = _holding_files(folder, commit, table) if table.is_revised else _own_files(folder, commit, table)
    top = Path(folder.path(f"tables/{table.name}"))
    try:
        top.mkdir(parents=True, exist_ok=True)
        delta = DeltaTable(top) if DeltaTable.is_deltatable(str(top)) else None
        present = {} if delta is None else _present(delta)
        adds = [_add(top, name, file, commit) for name, file in sorted(wanted.items()) if name not in present]
        removes = [_remove(name, size, commit) for name, size in sorted(present.items()) if name not in wanted]
        if delta is None or adds or removes:
            _write(top, delta, table, _Change(adds, removes), commit.batch)
    except (DeltaError, OSError) as error:
        raise OutputError(f"{top / _LOG}: the Delta log cannot be written: {first_line(error)}") from error
    if table.is_revised:
        _delete_unneeded(folder, table, needed={*wanted, *present})
    return PublishedFiles(len(adds), len(removes))


def _present(delta: DeltaTable) -> dict[str, int]:
    """The data files of the newest version, with their sizes."""
    actions = pyarrow.table(delta.get_add_actions(flatten=True))
    return dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))


def _own_files(folder: OutputFolder, commit: Commit, table: Table) -> dict[str, _DataFile]:
    """The files that count, relative to the table. Rows are counted only where a file is new to the log."""
    top = f"tables/{table.name}/"
    return {file.name.removeprefix(top): _DataFile(file.bytes, -1) for file in folder.files_at(commit, table.name)}


def _holding_files(folder: OutputFolder, commit: Commit, table: Table) -> dict[str, _DataFile]:
    """Write the rows that hold, a file a day, unless the file is there. Named by the content, so a day that did not
    change keeps its file.
    """
    top = f"tables/{table.name}/"
    there = folder.files.sizes(f"{top}{_CURRENT}")
    found = {}
    for day, rows in rows_by_day(folder.holding_at(commit, table.name), table.days):
        data = encoded(table.name, [rows])
        name = f"{_CURRENT}/day={day}/{content_digest(data)}{SUFFIX}"
        if top + name not in there:
            folder.put(top + name, data)
        found[name] = _DataFile(data.size, rows.num_rows)
    return found


def _write(top: Path, delta: DeltaTable | None, table: Table, change: _Change, batch: int) -> None:
    properties = CommitProperties(app_transactions=[Transaction(APPLICATION, batch)])
    schema = Schema.from_arrow(table.schema.append(pyarrow.field("day", pyarrow.string())))
    if delta is None:
        create_table_with_add_actions(
            str(top), schema, change.adds, partition_by=["day"], name=table.name, commit_properties=properties
        )
    else:
        _add_columns(delta, schema)
        actions: list[AddAction | RemoveAction] = [*change.adds, *change.removes]
        delta.create_write_transaction(actions, "append", schema, ["day"], commit_properties=properties)


def _add_columns(delta: DeltaTable, schema: Schema) -> None:
    """Add the columns that an older klamm did not have: files without them have nulls there."""
    known = {field.name for field in delta.schema().fields}
    new = [field for field in schema.fields if field.name not in known]
    if new:
        delta.alter.add_columns(new)


def _add(top: Path, name: str, file: _DataFile, commit: Commit) -> AddAction:
    rows = file.rows if file.rows >= 0 else pyarrow.parquet.read_metadata(top / name).num_rows
    stats = json.dumps({"numRecords": rows})
    return AddAction(name, file.size, {"day": _day_of(name)}, _changed_ms(commit), True, stats)


def _remove(name: str, size: int, commit: Commit) -> RemoveAction:
    return RemoveAction(name, True, _changed_ms(commit), partition_values={"day": _day_of(name)}, size=size)


def _changed_ms(commit: Commit) -> int:
    """The newest change of what was read: a commit has no clock of its own."""
    return commit.modified_ns // 1_000_000


def _day_of(name: str) -> str:
    return name.rsplit("/", 2)[-2].removeprefix("day=")


def _delete_unneeded(folder: OutputFolder, table: Table, needed: set[str]) -> None:
    """Delete files that neither this version nor the one before names: whoever has just opened that one reads on."""
    top = f"tables/{table.name}/"
    for name in folder.files.sizes(f"{top}{_CURRENT}"):
        if name.removeprefix(top) not in needed:
            folder.files.remove(name)
