"""`klamm bench`: how fast it is, on this machine."""

import sys
from typing import Annotated

import typer

from cluster.process.documents import Format
from launcher.installation import require_clone

app = typer.Typer(no_args_is_help=True, help="Measure; nothing passes or fails but for wrong results.")


@app.callback()
def bench() -> None:
    """Benchmarks start what they need themselves."""


@app.command("control-plane")
def control_plane(
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the cluster, 50 per topic.")] = 10_000,
    runs: Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")] = 3,
    form: Annotated[Format, typer.Option("-o", "--format", help="table or json.")] = Format.TABLE,
) -> None:
    """Controller failover, death of an agent and creation of a large topic: real processes, five stub agents."""
    require_clone("benchmarks", "./klamm bench")
    from benchmarks.control_plane import run

    if form is Format.YAML:
        raise typer.BadParameter("this command writes a table or json")
    sys.exit(run(partitions, runs, form is Format.JSON))
