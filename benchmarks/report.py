"""Benchmark results: medians over runs, with Apache Kafka's figures and lower bounds of the machine."""

import os
import platform
from collections.abc import Sequence
from statistics import median

from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

# Apache Kafka 3.9.1 in ZooKeeper mode on two cores of the same kind, agents that only acknowledge, RF 3, warm JVM.
# Its failover ends when it logs that it is ready, the others with ZooKeeper's time of the last write, so that none
# waits for the last acknowledgement. (case, partitions) -> ms.
KAFKA_MS = {
    ("failover-warm", 10_000): 2_700,
    ("agent-death-leaders-moved", 10_000): 1_200,
    ("agent-death-isr-shrunk", 10_000): 4_600,
    ("topic-creation", 10_000): 5_400,
    ("failover-warm", 100_000): 20_000,
    ("agent-death-leaders-moved", 100_000): 9_600,
    ("agent-death-isr-shrunk", 100_000): 33_000,
}

# Lower bounds in Python on two cores, per partition: reading and decoding the cluster with MultiRead, building indexes
# and serialising the requests of a failover; fenced multis that write the changes of a broker failure.
FLOOR_US_PER_PARTITION = {
    "failover": 15.5,
    "failover-warm": 15.5,
    "failover-standby": 15.5,
    "agent-death-leaders-moved": 6.6,
    "agent-death-isr-shrunk": 17.0,
}


class CaseRun(Struct, frozen=True):
    """One run of a case. `requests`: kind -> the maximum received by one agent, and bytes of all agents. `cpu_ms`: CPU
    time of the controller. `figures`: what only this case has.
    """

    ms: float
    phases: dict[str, float]
    zookeeper_round_trips: int
    zookeeper_requests: int
    requests: dict[str, "Requests"]
    peak_rss_bytes: int | None
    cpu_ms: float = 0
    figures: dict[str, float] = {}


class Requests(Struct, frozen=True):
    """Of one kind: over all agents, and the most that one agent received."""

    total: int
    most_per_agent: int
    bytes: int


class Case(Struct, frozen=True):
    """The keys are an interface for programs."""

    name: str
    size: int
    runs: tuple[CaseRun, ...]
    median_ms: float
    phases: dict[str, float]
    peer_ms: float | None
    floor_ms: float | None
    peak_rss_bytes: int | None
    cpu_ms: float
    figures: dict[str, float]


class Report(Struct, frozen=True):
    machine: str
    cases: tuple[Case, ...]
    brokers: int = 5


def summarise(name: str, size: int, runs: Sequence[CaseRun]) -> Case:
    """Medians over the runs, also per phase; the maximum of the memory peaks."""
    phases = dict.fromkeys(phase for run in runs for phase in run.phases)
    figures = dict.fromkeys(figure for run in runs for figure in run.figures)
    peaks = [run.peak_rss_bytes for run in runs if run.peak_rss_bytes is not None]
    floor_us = FLOOR_US_PER_PARTITION.get(name)
    return Case(
        name=name,
        size=size,
        runs=tuple(runs),
        median_ms=round(median(run.ms for run in runs), 1),
        phases={p: round(median(run.phases[p] for run in runs if p in run.phases), 1) for p in phases},
        peer_ms=KAFKA_MS.get((name, size)),
        floor_ms=None if floor_us is None else round(floor_us * size / 1000, 1),
        peak_rss_bytes=max(peaks) if peaks else None,
        cpu_ms=round(median(run.cpu_ms for run in runs), 1),
        figures={f: round(median(run.figures[f] for run in runs if f in run.figures), 1) for f in figures},
    )


def describe_machine() -> str:
    cores = len(os.sched_getaffinity(0))
    return f"{platform.machine()}, {cores} cores, {platform.system()}, Python {platform.python_version()}"


def print_table(report: Report, console: Console) -> None:
    """Print for people: times and costs of each case, then what was sent to agents, then the phases."""
    sizes = sorted({case.size for case in report.cases})
    title = f"{report.machine}; {', '.join(f'{size:,}' for size in sizes)} partitions, {report.brokers} brokers"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("case", no_wrap=True)
    for heading in ("ms", "CPU ms", "Kafka ms", "floor ms", "trips", "requests", "MiB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in report.cases:
        last = case.runs[-1]
        table.add_row(
            case.name,
            f"{case.median_ms:,.0f}",
            f"{case.cpu_ms:,.0f}",
            _number(case.peer_ms),
            _number(case.floor_ms),
            f"{last.zookeeper_round_trips:,}",
            f"{last.zookeeper_requests:,}",
            _number(None if case.peak_rss_bytes is None else case.peak_rss_bytes / 2**20),
        )
    console.print(table)
    console.print("ms: median of all rounds. Kafka: Apache Kafka 3.9.1 with ZooKeeper.")
    console.print(
        "CPU: the controller's. trips, requests: between controller and ZooKeeper. MiB: the controller's peak."
    )
    for case in report.cases:
        console.print(f"\n[bold]{case.name}[/bold]")
        if case.phases:
            console.print("  ms: " + ", ".join(f"{phase} {ms:,.0f}" for phase, ms in case.phases.items()))
        if case.figures:
            console.print("  " + ", ".join(f"{figure} {value:,.0f}" for figure, value in case.figures.items()))
        for kind, sent in case.runs[-1].requests.items():
            kilobytes = f"{sent.bytes / 1024:,.0f} KiB"
            console.print(f"  {kind}: {sent.most_per_agent} per agent at most, {sent.total} in all, {kilobytes}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
