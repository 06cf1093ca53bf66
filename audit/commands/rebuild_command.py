"""`klamm audit rebuild`: rebuild the state of an audit, in more buckets, by other rules, or where it was damaged."""

from typing import Annotated

import typer

from audit.commands.table_commands import OutputOption, opened_output

BucketsOption = Annotated[
    int | None,
    typer.Option(
        "--buckets", min=1, max=256, help="Divide the partitions into this many buckets. Default: as they are divided."
    ),
]
EPILOG = """Examples:
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
