"""`klamm simulate`: runs the seeds, stores their logs, prints the results.

Results go to stdout, messages to stderr. Exit codes: `cluster.model.exit_codes`.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
import structlog
import typer

from admin.cli.output import say, write
from cluster.cli.documents import Format
from cluster.model.errors import ConfigError
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted
from simulator.actions import Limit
from simulator.cluster_simulation import ClusterSimulation, LoadedClusterSimulation
from simulator.full_disks_simulation import FullDisksSimulation
from simulator.memory_state_log import write_segment
from simulator.moving_replicas_simulation import MovingReplicasSimulation
from simulator.replication_simulation import ReplicationSimulation
from simulator.run import RunResult, Simulation, SimulationRun, run_simulation
from simulator.seeds import run_all
from simulator.topic_simulation import TopicSimulation
from state_log.writer import SegmentName

MINUTES_MIN: Final = 0.05
MINUTES_MAX: Final = 1440

_CRITICAL: Final = 50
_COLUMNS: Final = ("seed", "workload", "virtual_time", "steps", "violations", "trace_hash")
_SIMULATIONS: Final[dict[Callable[[int], Simulation], int]] = {
    ClusterSimulation: 1,
    LoadedClusterSimulation: 4,
    lambda seed: ReplicationSimulation(seed, "fetch"): 2,
    lambda seed: ReplicationSimulation(seed, "epoch-query"): 2,
    TopicSimulation: 1,
    lambda seed: MovingReplicasSimulation(seed, "fetch"): 1,
    lambda seed: FullDisksSimulation(seed, "fetch"): 1,
}
"""Simulation -> its relative frequency."""


def draw_simulation(seed: int) -> Simulation:
    """Choose the simulation of a seed, from which everything random in a run is derived."""
    [make] = Random(f"simulation/{seed}").choices(list(_SIMULATIONS), list(_SIMULATIONS.values()))
    return make(seed)


def run_seed(seed: int, minutes: float) -> SimulationRun:
    """Inject requests and faults for `minutes` of virtual time; then the cluster must converge."""
    return run_simulation(seed, lambda: draw_simulation(seed), Limit(seconds=minutes * 60))


class Order(NamedTuple):
    """The parsed command line. `is_range`: the output is a list of runs, even of one."""

    seeds: Sequence[int]
    is_range: bool
    minutes: float
    jobs: int
    output: Path | None
    form: Format


def execute(order: Order, run: Callable[[int, float], SimulationRun] = run_seed) -> int:
    """Run every seed with `run` (seed, virtual minutes), print the results and return the exit code.

    Raises ConfigError for invalid options.
    """
    _validate(order)
    work = partial(_run_and_save, run, order.minutes, order.output)
    results = []
    with _progress(len(order.seeds)) as advance:
        for result in run_all(order.seeds, work, order.jobs):
            results.append(result)
            if result.violations:
                rules = ", ".join(v.rule for v in result.violations)
                say(f"seed {result.seed} violates {rules}; replay it with: {replay(result.seed, order.minutes)}")
            advance()
    results.sort(key=lambda result: result.seed)
    _show(order, results)
    return ExitCode.FINDINGS if any(result.violations for result in results) else ExitCode.OK


def replay(seed: int, minutes: float) -> str:
    """The command line that repeats a run exactly."""
    return f"klamm simulate --seed {seed} --minutes {str(minutes).removesuffix('.0')}"


def _validate(order: Order) -> None:
    if math.isnan(order.minutes) or not MINUTES_MIN <= order.minutes <= MINUTES_MAX:
        raise ConfigError([f"--minutes: {order.minutes}: must be between {MINUTES_MIN} and {MINUTES_MAX}"])
    if order.output is not None:
        folders = (_folder_of(order.output, seed) for seed in order.seeds)
        existing = [f"--output: {folder}: is there already" for folder in folders if folder.exists()]
        if existing:
            raise ConfigError(existing)


def _run_and_save(
    run: Callable[[int, float], SimulationRun], minutes: float, output: Path | None, seed: int
) -> RunResult:
    """Run one seed, in any process. Only the result is returned; logs and actions are written here."""
    with without_diagnostics():
        done = run(seed, minutes)
    if output is not None:
        _save(done, minutes, _folder_of(output, seed))
    return done.result


def _save(run: SimulationRun, minutes: float, folder: Path) -> None:
    """Write `run.json` and, in a directory per node, one segment for each process that recorded anything."""
    folder.mkdir(parents=True)
    for log in run.logs:
        if log.lines:
            write_segment(folder / log.node, SegmentName(log.node, log.incarnation, 0), log.lines)
    document = {**_document(run.result, minutes), "actions": run.actions}
    (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def _folder_of(output: Path, seed: int) -> Path:
    return output / f"seed-{seed}"


def _show(order: Order, results: Sequence[RunResult]) -> None:
    runs = [_document(result, order.minutes) for result in results]
    rows = [
        (r.seed, r.workload, f"{r.virtual_ms / 1000:.1f} s", r.steps, len(r.violations), r.trace_hash) for r in results
    ]
    write({"runs": runs} if order.is_range else runs[0], order.form, _COLUMNS, rows)
    found = [(result.seed, violation) for result in results for violation in result.violations]
    if order.form is Format.TABLE:
        for seed, violation in found:
            typer.echo(f"\nseed {seed} violates {violation.rule}: {violation.message}")
            if violation.records:
                typer.echo(f"records: {', '.join(violation.records)}")
            typer.echo(f"replay:  {replay(seed, order.minutes)}")
    say(f"{counted(len(results), 'seed')}, {counted(len(found), 'violation') if found else 'no violation'}")


def _document(result: RunResult, minutes: float) -> dict[str, Any]:
    return {**msgspec.to_builtins(result), "minutes": minutes, "replay": replay(result.seed, minutes)}


@contextmanager
def without_diagnostics() -> Iterator[None]:
    """Suppress the log lines of simulated processes, whose times are virtual."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on a terminal; nothing if stderr is a file. Yields the function that advances it by one."""
    if total == 1 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415 - Only a terminal pays for it.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
