"""SQL over the committed tables of an audit, by DuckDB, which may read these files and nothing else.

A revised table has under its name the rows that hold, and as `raw.<name>` all that were written. Times are milliseconds
as in the files, and once more as `<name>_time`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeVar

import duckdb
import pyarrow

from audit.records.findings import WITHDRAWN
from audit.storage.commits import Commit
from audit.storage.committed_state import REMEDY, OutputError
from audit.storage.file_store import is_remote
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import BATCH, TABLES, Table
from cluster.config.files import first_line
from cluster.model.errors import ClusterError

_TIMES: Final = (-62_135_596_800_000, 253_402_300_799_000)
"""Years 1 to 9999; what clocks say beyond that is no time."""
_T = TypeVar("_T")


class QueryError(ClusterError):
    """The SQL is wrong, or more than a query. The message is one line."""


class Answer(NamedTuple):
    """The answer to a query. Rows are of what JSON can express: times as texts, in UTC. `more`: not all were read."""

    columns: list[str]
    rows: list[list[Any]]
    more: bool = False

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class DescribedTable(NamedTuple):
    """A table and its number of rows, for a revised one those that hold."""

    table: Table
    rows: int
    columns: list[tuple[str, str]]


def run_query(folder: OutputFolder, sql: str, limit: int | None = None) -> Answer:
    """Answer one SELECT, with at most `limit` rows. Raises QueryError and OutputError."""
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(first_line(error)) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError("one SELECT is expected: the tables can only be read")
    return on_tables(folder, lambda tables: answer(tables, sql, limit=limit))


def describe_tables(folder: OutputFolder) -> list[DescribedTable]:
    """Describe all tables, also those without rows. Raises OutputError."""

    def describe(tables: duckdb.DuckDBPyConnection) -> list[DescribedTable]:
        found = []
        for name, table in TABLES.items():
            (rows,) = tables.execute(f"SELECT count(*) FROM {name}").fetchone() or (0,)
            columns = tables.execute(f"DESCRIBE {name}").fetchall()
            found.append(DescribedTable(table, rows, [(column[0], column[1].lower()) for column in columns]))
        return found

    return on_tables(folder, describe)


def on_tables(folder: OutputFolder, ask: Callable[[duckdb.DuckDBPyConnection], _T]) -> _T:
    """Run `ask` on the tables as they are committed. Raises QueryError and OutputError."""
    while True:
        commit = folder.last_commit()
        try:
            with _connected(folder, commit) as tables:
                return ask(tables)
        except OutputError:
            # An audit that runs may have merged the files.
            if folder.last_commit() == commit:
                raise


@contextmanager
def _connected(folder: OutputFolder, commit: Commit | None) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as tables:
        try:
            _show_tables(tables, folder, commit)
        except duckdb.Error as error:
            raise _damaged(error) from error
        try:
            yield tables
        except duckdb.IOException as error:
            raise _damaged(error) from error
        except duckdb.InvalidInputException as error:
            # What cannot be read is wrong input to DuckDB, as a wrong argument is.
            raise _damaged(error) if folder.path("tables") in str(error) else QueryError(first_line(error)) from error
        except duckdb.Error as error:
            raise QueryError(first_line(error)) from error


def _damaged(error: duckdb.Error) -> OutputError:
    return OutputError(f"{first_line(error)}; {REMEDY}")


def _show_tables(tables: duckdb.DuckDBPyConnection, folder: OutputFolder, commit: Commit | None) -> None:
    """Make views of the tables, and lock everything else."""
    found = {name: [] if commit is None else folder.files_at(commit, name) for name in TABLES}
    # DuckDB reads files of this machine only.
    local = not is_remote(folder.location)
    files = {name: [folder.path(file.name) for file in of] if local else [] for name, of in found.items()}
    tables.execute("SET autoinstall_known_extensions = false")
    tables.execute("SET temp_directory = ''")
    tables.execute("SET TimeZone = 'UTC'")
    tables.execute(f"SET allowed_paths = {_texts([path for paths in files.values() for path in paths])}")
    tables.execute("SET enable_external_access = false")
    tables.execute("CREATE SCHEMA raw")
    for name, table in TABLES.items():
        if files[name]:
            options = "hive_partitioning = true, hive_types = {'day': VARCHAR}, union_by_name = true"
            source = f"read_parquet({_texts(files[name])}, {options})"
        else:
            parts = [_with_day(folder.read_file(file), file.day) for file in found[name]]
            tables.register(f"rows_of_{name}", pyarrow.concat_tables([_empty(table), *parts]))
            source = f"rows_of_{name}"
        tables.execute(f"CREATE VIEW raw.{name} AS SELECT * FROM {source}")
        tables.execute(f"CREATE VIEW {name} AS {_current(table)}")
    tables.execute("SET lock_configuration = true")


def _empty(table: Table) -> pyarrow.Table:
    plain = [
        pyarrow.field(column.name, pyarrow.string() if pyarrow.types.is_dictionary(column.type) else column.type)
        for column in table.stored
    ]
    return pyarrow.schema([*plain, pyarrow.field("day", pyarrow.string())]).empty_table()


def _with_day(rows: pyarrow.Table, day: str) -> pyarrow.Table:
    plain = pyarrow.table([_plain_column(rows[name]) for name in rows.schema.names], rows.schema.names)
    return plain.append_column("day", pyarrow.array([day]).take(pyarrow.array([0] * rows.num_rows, pyarrow.int64())))


def _plain_column(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    return column.cast(pyarrow.string()) if pyarrow.types.is_dictionary(column.type) else column


def _current(table: Table) -> str:
    times = "".join(
        f", CASE WHEN {name} BETWEEN {_TIMES[0]} AND {_TIMES[1]} THEN epoch_ms({name}) END"
        f" AS {name.removesuffix('_ms')}_time"
        for name in table.times
    )
    if not table.is_revised:
        return f"SELECT *{times} FROM raw.{table.name}"
    newest = f"row_number() OVER (PARTITION BY {', '.join(table.key)} ORDER BY {BATCH} DESC) = 1"
    latest = f"SELECT * FROM raw.{table.name} QUALIFY {newest}"
    return f"SELECT * EXCLUDE ({BATCH}){times} FROM ({latest}) WHERE status <> '{WITHDRAWN}'"


def answer(
    tables: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] = (), *, limit: int | None = None
) -> Answer:
    """Answer SQL with `?` for each parameter. `limit`: rows that are read; DuckDB makes few more than those."""
    result = tables.execute(sql, list(parameters))
    columns = [column[0] for column in result.description or []]
    rows = result.fetchall() if limit is None else result.fetchmany(limit + 1)
    more = limit is not None and len(rows) > limit
    return Answer(columns, [[_plain(value) for value in row] for row in rows[:limit]], more)


def _plain(value: Any) -> Any:
    """Make a value one that JSON can express."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _texts(values: Sequence[str]) -> str:
    """Write texts as an SQL list."""
    return "[{}]".format(", ".join("'{}'".format(value.replace("'", "''")) for value in values))
