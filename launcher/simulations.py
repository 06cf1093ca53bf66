"""`klamm simulate`: whole clusters on virtual time, and everything that can go wrong with one."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from admin.cli.options import FormatOption, examples
from cluster.errors import ConfigError
from cluster.process.documents import Format

SIMULATE_EXAMPLES = examples(
    "klamm simulate --seed 7                  one run",
    "klamm simulate --seeds 1..200 --jobs 2   many, on two cores",
    "klamm simulate --seed 7 --output runs    keep its logs in runs/seed-7",
    "klamm story t1-0 --log-dir runs/seed-7",
    "klamm audit run --once --log-dir runs/seed-7 --output report",
)


def simulate(
    *,
    seed: Annotated[int | None, typer.Option("--seed", min=0, show_default="1", help="The run to make.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Several runs: all seeds from A to B.")] = None,
    minutes: Annotated[
        float, typer.Option(metavar="M", help="Virtual minutes during which requests and faults are injected.")
    ] = 3,
    jobs: Annotated[
        int | None, typer.Option(min=1, show_default="one per core", help="Processes that share the seeds.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Keep each run's state-change logs here, in a folder seed-N of its own."),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Search for violations of the protocol in simulated clusters.

    The real controllers and agents run in one process, on an in-memory
    ZooKeeper, network and disk, while processes crash and hang, sessions
    expire, links break and power fails. Time is virtual: minutes take seconds.

    The seed decides everything that happens, so a run can be repeated exactly;
    equal trace hashes mean equal runs. When the faults have ended the cluster
    must converge, with every acknowledged record where it belongs.

    Exit codes: 0 nothing found, 2 wrong usage, 3 a violation, which is shown
    with the command that replays it.
    """
    from simulator.command import Order, execute
    from simulator.seeds import parse_seeds

    if seed is not None and seeds is not None:
        raise ConfigError([f"--seed: {seed}: cannot be given together with --seeds {seeds}"])
    chosen = [1 if seed is None else seed] if seeds is None else parse_seeds(seeds)
    workers = len(os.sched_getaffinity(0)) if jobs is None else jobs
    sys.exit(execute(Order(chosen, seeds is not None, minutes, workers, output, form)))
