"""`klamm audit query`, `compact`, `rebuild` and `rejudge`: look at the tables of an audit, keep them small, check them
by other rules.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.cli.documents import Format, write_document, write_table
from cluster.model.errors import ClusterError, ConfigError
from cluster.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from audit.storage.output_folder import OutputFolder

OutputOption = Annotated[str, typer.Option("--output", help="The --output of 'klamm audit run'.")]
FormatOption = Annotated[Format, typer.Option("-o", "--format", help="Output format.")]
KEEP_DAYS_HELP = "Delete days of records and timelines that are older, counted back from today. Default: keep all."
KeepDaysOption = Annotated[int | None, typer.Option("--keep-days", min=1, max=36_500, help=KEEP_DAYS_HELP)]

QUERY_EPILOG = """Examples:
  klamm audit query --output report
  klamm audit query --output report "SELECT rule, count(*) FROM findings GROUP BY rule"
  klamm audit query --output report "SELECT * FROM failovers ORDER BY leaderless_max_ms DESC"
  klamm audit query --output report "FROM broker_sessions WHERE ended = 'died'" -o json
Exit codes: 0 done; 1 the output is not as an audit has left it; 2 wrong SQL or wrong usage."""
COMPACT_EPILOG = """Example:
  klamm audit compact --output report --keep-days 90
Exit codes: 0 done; 1 the output is in use, or not as an audit has left it; 2 wrong usage."""


def query(
    output: OutputOption,
    sql: Annotated[str, typer.Argument(metavar="[SQL]", help="One SELECT. Without it the tables are listed.")] = "",
    form: FormatOption = Format.TABLE,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000_000, help="Read at most this many rows.")] = 10_000,
) -> None:
    """Ask the tables of an audit by SQL, or list them.

    A table has the rows that hold by now; raw.TABLE has also those that
    later records have changed. Times are in milliseconds since 1970 in the
    columns named _ms, and readable in those named _time, in UTC.
    """
    from audit.tables.queries import QueryError, run_query  # noqa: PLC0415

    with opened_output(output, "the tables could not be read") as folder:
        folder.check_tables()
        if not sql.strip():
            _list_tables(folder, form)
            return
        try:
            found = run_query(folder, sql, limit)
        except QueryError as error:
            raise typer.BadParameter(
                f"{error}; 'klamm audit query' without SQL lists the tables", param_hint="SQL"
            ) from None
        if form is Format.TABLE:
            write_table([name.replace(" ", "_") or "_" for name in found.columns], found.rows)
        else:
            write_document({"rows": found.dicts(), "more": found.more}, form)
        if found.more:
            typer.echo(
                f"only the first {limit} rows: --limit raises that; LIMIT … OFFSET … in the SQL shows the next ones",
                err=True,
            )


def _list_tables(folder: "OutputFolder", form: Format) -> None:
    from audit.tables.queries import describe_tables  # noqa: PLC0415

    tables = describe_tables(folder)
    if form is not Format.TABLE:
        documents: list[dict[str, Any]] = [
            {
                "name": table.name,
                "rows": rows,
                "says": table.says,
                "key": list(table.key),
                "columns": [{"name": name, "type": kind} for name, kind in columns],
            }
            for table, rows, columns in tables
        ]
        write_document({"tables": documents}, form)
        return
    for table, rows, columns in tables:
        typer.secho(f"{table.name}  {rows:,} rows", bold=True)
        typer.echo(f"  {table.says}")
        typer.echo(f"  {', '.join(f'{name} {kind}' for name, kind in columns)}")


def compact(output: OutputOption, keep_days: KeepDaysOption = None) -> None:
    """Merge the files of each day of the tables, and delete old days if asked to.

    A running audit does the same from time to time; findings are never
    deleted. Refused while an audit writes to the output.
    """
    from audit.tables.compaction import (  # noqa: PLC0415
        Compaction,
        commit_and_delete,
        compact_all,
        delete_old,
        delete_strays,
    )

    with opened_output(output, "nothing was merged") as folder, folder.locked():
        folder.check()
        delete_strays(folder)
        before = folder.last_commit()
        if before is None:
            typer.echo("nothing was audited yet", err=True)
            return
        commit, unneeded = before, list[str]()
        if keep_days is not None:
            commit, unneeded = delete_old(folder, before, keep_days, datetime.now(UTC).date())
        commit, merged = compact_all(folder, commit)
        commit_and_delete(folder, Compaction(commit, [*unneeded, *merged]))
        files = [sum(size.files for size in known.tables.values()) for known in (before, commit)]
        typer.echo(f"{files[0]:,} files of tables became {files[1]:,}", err=True)


DELTA_EPILOG = """Example:
  klamm audit delta --output report
Exit codes: 0 done; 1 the output is in use, or not as an audit has left it, or the extra is missing; 2 wrong usage."""


def delta(output: OutputOption) -> None:
    """Publish the tables of an audit as Delta tables, for Spark, Trino, DuckDB and others.

    Each folder below tables/ becomes a Delta table with the rows that hold:
    no row twice, no withdrawn finding. From then on every run with this
    --output keeps them up to date. Needs the extra 'audit-delta'. Refused
    while an audit writes to the output.
    """
    from audit.tables.compaction import publisher  # noqa: PLC0415

    with opened_output(output, "nothing was published") as folder, folder.locked():
        publish = publisher()
        folder.check_tables()
        commit = folder.last_commit()
        if commit is None:
            typer.echo("nothing was audited yet", err=True)
            return
        changed = publish(folder, commit)
    for name, files in changed.items():
        typer.echo(f"{name}: {_files(files.added)} added, {files.removed} removed", err=True)
    typer.echo(f"the Delta tables in {output}/tables are those of batch {commit.batch}", err=True)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


@contextmanager
def opened_output(output: str, failed: str) -> Iterator["OutputFolder"]:
    """Open the output of an audit. If that fails, say on one line what failed and what is wrong, and exit."""
    from audit.storage.output_folder import OutputFolder  # noqa: PLC0415

    if "://" not in output and not Path(output).is_dir():
        raise typer.BadParameter(
            f"{output}: is not a folder; pass the --output of 'klamm audit run'", param_hint="--output"
        )
    try:
        yield OutputFolder(output)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--output") from None
    except BrokenPipeError:
        # Who reads the output has enough of it, as `head` does.
        raise
    except (ClusterError, OSError) as error:
        typer.echo(f"{failed}: {error}", err=True)
        raise typer.Exit(ExitCode.REFUSED) from None


BucketsOption = Annotated[
    int | None,
    typer.Option(
        "--buckets", min=1, max=256, help="Divide the partitions into this many buckets. Default: as they are divided."
    ),
]
REBUILD_EPILOG = """Examples:
  klamm audit rebuild --output report
  klamm audit rebuild --output report --buckets 64
Exit codes: 0 done; 1 the output is in use, or not as an audit has left it, or lacks records; 2 wrong usage."""


def rebuild(output: OutputOption, buckets: BucketsOption = None) -> None:
    """Rebuild the state of the partitions from the table of records.

    By the rules of this klamm; findings and other tables change where these
    see it otherwise. The next run continues from there. Refused while an audit
    writes to the output. Needs room in the temporary folder (TMPDIR) for all
    records.
    """
    from audit.batches.rebuild import rebuild as rebuild_state  # noqa: PLC0415

    with opened_output(output, "nothing was rebuilt") as folder, folder.locked():
        rebuilt = rebuild_state(folder, buckets)
    changed = ", ".join(f"{rows} rows of {table}" for table, rows in sorted(rebuilt.changed.items()))
    typer.echo(
        f"the state of {rebuilt.buckets} buckets was made from {rebuilt.records:,} records of partitions; "
        f"{changed or 'no rows'} changed",
        err=True,
    )


REJUDGE_EPILOG = """Examples:
  klamm audit rejudge --output report
  klamm audit rejudge --output report -o json
Exit codes: 0 clean, by today's rules; 1 the output is in use, or not as an audit has left it, or lacks records;
2 wrong usage; 3 findings; 4 incomplete."""
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Show at most this many findings of each kind.")]


def rejudge(output: OutputOption, form: FormatOption = Format.TABLE, limit: LimitOption = 20) -> None:
    """Compare what an audit has found with what the rules of this klamm find.

    The records of the output are checked once more; findings that appear,
    go or change are listed. The output stays as it is: 'klamm audit rebuild'
    takes the difference over. Needs room in the temporary folder (TMPDIR).
    """
    from audit.report.rejudge import rejudge as compare  # noqa: PLC0415
    from audit.report.rejudge_text import show_rejudged  # noqa: PLC0415

    with opened_output(output, "nothing was compared") as folder, folder.locked():
        folder.check()
        compared = compare(folder)
    raise typer.Exit(show_rejudged(compared, form, limit))
