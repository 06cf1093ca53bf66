"""`klamm audit`: run the job, show its report, check logs for tampering. Only `run` needs Spark and Java.

The result goes to stdout, messages to stderr. Exit codes: `cluster.process.exit_codes`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from cluster.process.documents import Format, write_document
from cluster.process.exit_codes import ExitCode

if TYPE_CHECKING:
    from audit.report import AuditResult

app = typer.Typer(no_args_is_help=True, help="Prove what the state-change logs say.")

LogDirOption = Annotated[
    list[Path],
    typer.Option("--log-dir", exists=True, file_okay=False, help="A folder of state-change logs; repeatable."),
]
OutputOption = Annotated[Path, typer.Option("--output", file_okay=False, help="The folder of findings and progress.")]
FormatOption = Annotated[Format, typer.Option("-o", "--format", help="How to write the result.")]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Show at most so many findings.")]


@app.command()
def run(
    log_dir: LogDirOption,
    output: OutputOption,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there now has been read.")] = False,
    form: FormatOption = Format.TABLE,
    limit: LimitOption = 20,
) -> None:
    """Check the logs, beginning where the last run on the same output ended; follow them unless --once."""
    from audit.job import AuditFailedError, run_audit  # noqa: PLC0415 - A second of imports that --help must not pay.

    try:
        result = run_audit(log_dir, output, once=once, on_progress=_progress)
    except AuditFailedError as error:
        typer.echo(f"the audit failed: {error}\nSpark's own log is {output / 'spark.log'}", err=True)
        raise typer.Exit(ExitCode.REFUSED) from None
    _show(result, output, form, limit)


@app.command()
def report(output: OutputOption, form: FormatOption = Format.TABLE, limit: LimitOption = 20) -> None:
    """Show what the runs on this output have found so far."""
    from audit.report import read_result  # noqa: PLC0415

    if not output.is_dir():
        raise typer.BadParameter(f"{output} is no folder", param_hint="--output")
    _show(read_result(output), output, form, limit)


@app.command()
def verify(log_dir: LogDirOption, form: FormatOption = Format.TABLE) -> None:
    """Check numbering and hash chain of the logs: lines missing, altered or repeated."""
    from state_log.reader import verify as find_breaks  # noqa: PLC0415

    breaks = find_breaks(log_dir)
    if form is not Format.TABLE:
        verdict = "findings" if breaks else "clean"
        write_document({"verdict": verdict, "breaks": [msgspec.to_builtins(b) for b in breaks]}, form)
    else:
        for found in breaks:
            typer.echo(f"{found.rule}  {found.node}/{found.incarnation}: {found.message}")
        typer.echo(f"{len(breaks)} breaks" if breaks else "the logs are as they were written")
    raise typer.Exit(ExitCode.FINDINGS if breaks else ExitCode.OK)


def _show(result: "AuditResult", output: Path, form: Format, limit: int) -> None:
    from audit.report import read_findings  # noqa: PLC0415

    if form is not Format.TABLE:
        write_document({**msgspec.to_builtins(result), "output": str(output)}, form)
    else:
        typer.echo(f"verdict      {result.verdict}")
        typer.echo(f"records      {result.records} of {result.expected}, {result.incarnations} incarnations")
        typer.echo(f"quarantined  {result.quarantined}")
        for rule, count in result.findings.items():
            typer.echo(f"  {count:>6}  {rule}")
        for found in read_findings(output, limit):
            where = "" if found["topic"] is None else f" {found['topic']}-{found['partition']}"
            typer.echo(f"{found['rule']}{where}: {found['message']} [{', '.join(found['records'])}]")
            for cause in found["causes"]:
                typer.echo(f"    {cause}")
    raise typer.Exit(ExitCode.FINDINGS if result.verdict != "clean" else ExitCode.OK)


def _progress(result: "AuditResult") -> None:
    typer.echo(f"{result.records} records, {sum(result.findings.values())} findings", err=True)
