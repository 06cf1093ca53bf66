"""The report of `klamm bench cluster`: medians over the runs, beside another system's where its rows are given.

A peer's rows are lines of JSON: `m` is the measure (`M1` creation, `M2` controlled shutdown, `restart`, `M5` preferred
election, `M3` kill of a broker, `M4` kill of the controller), `mode` the system, the other keys are seconds.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.cluster_cases import Measurement, Plan
from benchmarks.report import describe_machine
from cluster.model.errors import ConfigError

_PEER: Final = {
    ("create", "answered"): [("M1", "answered")],
    ("create", "all agents know"): [("M1", "all_brokers")],
    ("shutdown", "leaders moved"): [("M2", "moved")],
    ("shutdown", "process gone"): [("M2", "exit")],
    ("restart after shutdown", "in every ISR"): [("restart", "full_isr")],
    ("restart after kill", "in every ISR"): [("restart", "full_isr")],
    ("preferred", "answered"): [("M5", "answered")],
    ("preferred", "all agents know"): [("M5", "all_preferred")],
    ("kill", "all moved since detection"): [("M3", "moved_from_detection"), ("M3", "moved_from_log")],
    ("controller kill", "topic created since"): [("M4", "served_after_elected"), ("M4", "served_after_active")],
}
"""Per figure the peer's measures that mean the same, the first that it has."""


class ClusterReport(Struct, frozen=True):
    machine: str
    plan: Plan
    measurements: list[Measurement]


def read_peer(path: Path) -> list[dict[str, Any]]:
    """Read a peer's rows. Raises ConfigError, which names the file and line, for what is no such row."""
    rows = []
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"--peer {path}: {error}"]) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError([f"--peer {path}, line {number}: is not JSON: {error}"]) from error
        if not isinstance(row, dict) or "m" not in row:
            raise ConfigError([f"--peer {path}, line {number}: is not a row with the measure as 'm'"])
        rows.append(row)
    return rows


def peer_median(rows: Sequence[dict[str, Any]], case: str, figure: str) -> float | None:
    """The peer's median for a figure; None if it has none."""
    for measure, key in _PEER.get((case, figure), ()):
        values: list[float] = [
            row[key] for row in rows if row["m"] == measure and isinstance(row.get(key), (int, float))
        ]
        if values:
            return median(values)
    return None


def print_results(
    plan: Plan, measured: Sequence[Measurement], peer: Sequence[dict[str, Any]], *, output_json: bool
) -> None:
    """Print the report, for programs or for people."""
    report = ClusterReport(describe_machine(), plan, list(measured))
    if output_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        print_report(report, peer, Console())


def print_report(report: ClusterReport, peer: Sequence[dict[str, Any]], console: Console) -> None:
    """Print for people: each figure with its median, the fastest and the slowest, and what the producer waited."""
    title = f"{report.machine}; 3 agents, {report.plan.partitions:,} partitions, 3 replicas"
    name = "/".join(sorted({str(row.get("mode", "peer")) for row in peer}))
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("case", no_wrap=True)
    table.add_column("figure")
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("from to", justify="right", no_wrap=True)
    if peer:
        table.add_column(name, justify="right")
        table.add_column("ratio", justify="right")
    for case, figure, values in _figures(report.measurements):
        row = [case, figure, f"{median(values):.2f}", f"{min(values):.2f} {max(values):.2f}" if values[1:] else ""]
        if peer:
            other = peer_median(peer, case, figure)
            row += ["", ""] if other is None else [f"{other:.2f}", f"{median(values) / other:.2f}" if other else ""]
        table.add_row(*row)
    console.print(table)
    console.print("Seconds, unless the figure names a unit. Ratio: this median by the peer's." if peer else "Seconds.")
    console.print("\n[bold]A record of 1 KiB, acks=all, meanwhile[/bold]")
    for measured in report.measurements:
        if measured.load is not None:
            load = measured.load
            console.print(
                f"  {measured.case}: p50 {load.p50_ms:g}, p99 {load.p99_ms:g}, longest {load.max_ms:g} ms"
                f" ({load.records:,} records, {load.failed} failed)"
            )


def _figures(measurements: Sequence[Measurement]) -> Iterator[tuple[str, str, list[float]]]:
    for case, figure in dict.fromkeys((m.case, figure) for m in measurements for figure in m.figures):
        yield case, figure, [m.figures[figure] for m in measurements if m.case == case and figure in m.figures]
