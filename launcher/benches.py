"""`klamm bench`: benchmarks."""

import sys
from typing import Annotated

import typer

from admin.cli.output import examples
from cluster.process.documents import Format
from launcher.installation import require_clone

app = typer.Typer(no_args_is_help=True, help="Benchmarks. They measure; only wrong results fail.")


@app.callback()
def bench() -> None:
    """Run benchmarks; they start the processes they need."""


@app.command(
    "control-plane",
    epilog=examples(
        "klamm bench control-plane",
        "klamm bench control-plane --partitions 2000 --runs 1 -o json",
        exit_codes="0 measured; 1 a wrong result; 2 wrong usage.",
    ),
)
def control_plane(
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the cluster, 50 per topic.")] = 10_000,
    runs: Annotated[int, typer.Option(min=1, help="Number of rounds; the median is reported.")] = 3,
    form: Annotated[Format, typer.Option("-o", "--format", help="table or json.")] = Format.TABLE,
) -> None:
    """Measure controller failover, the failure of a broker, and the creation of a large topic.

    Runs a real controller and ZooKeeper with five stub brokers. Needs the
    repository and the extra 'embedded'.
    """
    require_clone("benchmarks", "./klamm bench")
    from benchmarks.control_plane import run

    if form is Format.YAML:
        raise typer.BadParameter(f"-o {form.value}: must be table or json")
    sys.exit(run(partitions, runs, form is Format.JSON))
