"""`klamm simulate`: simulated clusters on virtual time, under random faults."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from admin.cli.options import FormatOption
from admin.cli.output import examples
from cluster.cli.documents import Format
from cluster.model.errors import ConfigError

app = typer.Typer()


@app.command(
    epilog=examples(
        "klamm simulate --seed 7                  one run",
        "klamm simulate --seeds 1..200 --jobs 2   many, on two cores",
        "klamm simulate --seed 7 --output runs    keep its logs in runs/seed-7",
        "klamm story t1-0 --log-dir runs/seed-7",
        "klamm audit run --once --log-dir runs/seed-7 --output report",
        exit_codes="0 no violation; 1 a run failed; 2 wrong usage; 3 violations found.",
    )
)
def simulate(
    *,
    seed: Annotated[int | None, typer.Option("--seed", min=0, show_default="1", help="Simulate this seed.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Simulate all seeds from A to B.")] = None,
    minutes: Annotated[float, typer.Option(metavar="M", help="Virtual minutes of requests and faults.")] = 3,
    jobs: Annotated[
        int | None, typer.Option(min=1, show_default="one per core", help="Number of parallel processes.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Write the state-change logs of each run to seed-N in this folder."),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Run simulated clusters under random faults and check the protocol's invariants.

    The real controller and broker code runs in one process on an in-memory
    ZooKeeper, network and disk, while processes crash and hang, sessions
    expire, links break and power fails. Time is virtual: minutes take seconds.

    The seed determines the whole run: equal trace hashes mean equal runs.
    Once the faults end, the cluster must converge without losing an
    acknowledged record. A violation is printed with the command that replays
    it. Needs neither Java nor a network. See docs/simulator.md.
    """
    from simulator.command import Order, execute
    from simulator.seeds import parse_seeds

    if seed is not None and seeds is not None:
        raise ConfigError([f"--seed: {seed}: cannot be given together with --seeds {seeds}"])
    chosen = [1 if seed is None else seed] if seeds is None else parse_seeds(seeds)
    workers = len(os.sched_getaffinity(0)) if jobs is None else jobs
    sys.exit(execute(Order(chosen, seeds is not None, minutes, workers, output, form)))
