"""Measures by which power of its size each case of `klamm bench control-plane` grows, and plots it.

    python -m benchmarks.scale_law [--sizes 1000,10000,100000] [--brokers 5,20,100] [--case agent-death]…
        [--results scale.jsonl] [--plot scale.svg]

Each size is one run on five brokers, and each number of brokers one run with `--partitions` partitions. The measure is
the CPU time of the controller, which other work on the machine changes least. The exponent is that of the sizes from
10,000 partitions on, as below them what a case costs at any size shows. An exponent of 1 is work in proportion; one
above 1.15 is marked, and makes the exit code 3. `--results` keeps each run, so that a later call, or one after an
interruption, measures only what is missing; with `--sizes none` it only plots.
"""

import argparse
import asyncio
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from benchmarks.control_plane import Plan, measure
from benchmarks.control_plane_cases import CASES
from benchmarks.control_plane_round import say
from benchmarks.scale_plot import Series, plot
from cluster.model.exit_codes import ExitCode

SIZES: Final = "1000,3000,10000,30000,100000,200000"
BROKERS: Final = "5,20,50,100"
FITTED_FROM: Final = 10_000
WORSE_THAN_LINEAR: Final = 1.15
# Of a process that has just started most is its own start, and the agent's death has two figures of one cost.
NOT_PLOTTED: Final = frozenset({"failover", "agent-death-leaders-moved"})


class Point(Struct, frozen=True):
    """One case at one size."""

    case: str
    partitions: int
    brokers: int
    ms: float
    cpu_ms: float
    peak_rss_bytes: int | None
    round_trips: int
    bytes_sent: int


def exponent(points: Iterable[tuple[float, float]]) -> float | None:
    """The power of x by which y grows: the slope of the least squares of their logarithms; None without two sizes."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    middle_x, middle_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    slope: float = sum((x - middle_x) * (y - middle_y) for x, y in logs) / sum((x - middle_x) ** 2 for x, _ in logs)
    return slope


def by_size(points: Sequence[Point], brokers: int, fitted_from: int = FITTED_FROM) -> list[Series]:
    """A series of CPU time by partitions for each case, with its exponent from that size on."""
    found = []
    for case in dict.fromkeys(point.case for point in points):
        of_case = {p.partitions: p.cpu_ms for p in points if p.case == case and p.brokers == brokers}
        line = sorted(of_case.items())
        found.append(Series(case, tuple(line), exponent((x, y) for x, y in line if x >= fitted_from)))
    return [series for series in found if len(series.points) > 1]


def by_brokers(points: Sequence[Point], partitions: int) -> list[Series]:
    """A series of CPU time by brokers for each case, with its exponent."""
    found = []
    for case in dict.fromkeys(point.case for point in points):
        line = sorted({p.brokers: p.cpu_ms for p in points if p.case == case and p.partitions == partitions}.items())
        found.append(Series(case, tuple(line), exponent(line)))
    return [series for series in found if len(series.points) > 1]


async def measure_size(partitions: int, brokers: int, cases: tuple[str, ...], *, is_compared: bool) -> list[Point]:
    """Run the cases once at one size."""
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
        report = await measure(Plan(partitions, 1, brokers, cases, is_compared=is_compared), Path(folder))
    return [
        Point(
            case.name,
            partitions,
            brokers,
            case.median_ms,
            case.cpu_ms,
            case.peak_rss_bytes,
            case.runs[0].zookeeper_round_trips,
            sum(sent.bytes for sent in case.runs[0].requests.values()),
        )
        for case in report.cases
    ]


def read_points(path: Path | None) -> list[Point]:
    """Read what earlier runs have found."""
    if path is None or not path.exists():
        return []
    return [msgspec.json.decode(line, type=Point) for line in path.read_bytes().splitlines() if line]


def run(
    wanted: Sequence[tuple[int, int]], cases: tuple[str, ...], results: Path | None, *, is_compared: bool
) -> list[Point]:
    """Measure the sizes, of partitions and brokers, that are not in `results` yet; returns all points."""
    points = read_points(results)
    for partitions, brokers in dict.fromkeys(wanted):
        known = {point.case for point in points if (point.partitions, point.brokers) == (partitions, brokers)}
        missing = tuple(name for name in cases if not any(case.startswith(name) for case in known))
        if not missing:
            continue
        say(f"{partitions:,} partitions, {brokers} brokers")
        found = asyncio.run(measure_size(partitions, brokers, missing, is_compared=is_compared))
        points += found
        if results is not None:
            with results.open("ab") as file:
                file.writelines(msgspec.json.encode(point) + b"\n" for point in found)
    return points


def tell(title: str, series: Sequence[Series]) -> list[str]:
    """Print the exponents; returns the cases that grow faster than their size."""
    worse = [s.name for s in series if s.exponent is not None and s.exponent > WORSE_THAN_LINEAR]
    sys.stdout.write(f"{title}\n")
    for one in series:
        mark = "  worse than linear" if one.name in worse else ""
        shown = "" if one.exponent is None else f"{one.exponent:.2f}"
        line = ", ".join(f"{x:,}: {y:,.0f}" for x, y in one.points)
        sys.stdout.write(f"  {one.name:26} {shown:>5}{mark}   {line}\n")
    return worse


def _numbers(text: str) -> list[int]:
    return [] if text == "none" else [int(part) for part in text.split(",")]


def main() -> int:
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=_numbers, default=SIZES, help=f"partitions on five brokers ({SIZES})")
    parser.add_argument("--brokers", type=_numbers, default=BROKERS, help=f"numbers of brokers ({BROKERS})")
    parser.add_argument("--partitions", type=int, default=20_000, help="of the runs with several numbers of brokers")
    parser.add_argument("--case", action="append", choices=tuple(CASES), help="repeatable; default: all")
    parser.add_argument("--results", type=Path, help="a file of JSON lines, which is added to")
    parser.add_argument("--fit-from", type=int, default=FITTED_FROM, help="the least size that the exponent is of")
    parser.add_argument("--plot", type=Path, help="where to write the SVG")
    parser.add_argument(
        "--unchecked",
        action="store_true",
        help="do not compare what agents know with ZooKeeper, which takes far longer than the case at a million",
    )
    given = parser.parse_args()
    wanted = [(size, 5) for size in given.sizes] + [(given.partitions, brokers) for brokers in given.brokers]
    measured = run(wanted, tuple(given.case or CASES), given.results, is_compared=not given.unchecked)
    points = [point for point in measured if point.case not in NOT_PLOTTED]
    sizes, brokers = by_size(points, 5, given.fit_from), by_brokers(points, given.partitions)
    worse = tell("CPU ms of the controller by partitions, on 5 brokers", sizes)
    worse += tell(f"CPU ms of the controller by brokers, with {given.partitions:,} partitions", brokers)
    if given.plot is not None:
        panels = [("partitions, 5 brokers", sizes), (f"brokers, {given.partitions:,} partitions", brokers)]
        given.plot.write_text(plot("CPU time of the controller for each case, s", panels), "utf-8")
    return ExitCode.FINDINGS if worse else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
