"""`python -m tests.chaos`: rounds of faults on a real cluster; see README.md beside this file."""

import argparse
import asyncio
import contextlib
import fnmatch
import itertools
import math
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from cluster.process.local_cluster import ZOOKEEPER
from tests.chaos.cluster import CONTROLLERS, ChaosCluster, Shape
from tests.chaos.faults import bit_rot, disks, files, links, mixes, processes, zookeeper
from tests.chaos.faults.registry import FAULTS, Fault
from tests.chaos.isolation import Capability, find_missing, isolate
from tests.chaos.network import Network
from tests.chaos.rounds import HealthMonitor, RoundRunner
from tests.chaos.spark import SparkAudits
from tests.chaos.summary import summary
from tests.chaos.table import Row, Table, Verdict
from tests.commits import described_commit

ROOT = Path(__file__).resolve().parents[2]
REGISTERED = (processes, links, disks, files, bit_rot, zookeeper, mixes)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, help="default: each fault once")
    parser.add_argument("--seconds", type=float, help="begin no round after so long; a later run goes on")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first pass over the faults; each has its own")
    parser.add_argument("--faults", default="", help="comma-separated; default: all; * matches")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "chaos", help="the table, and failed rounds")
    parser.add_argument("--again", action="store_true", help="also rounds that the table has already")
    parser.add_argument(
        "--secure",
        choices=("some", "all", "none"),
        default="some",
        help="rounds on clusters under TLS, ZooKeeper too; some: two of three, the default",
    )
    parser.add_argument("--spark", action="store_true", help="the Spark audit at the end of each cluster, too")
    parser.add_argument("--keep", action="store_true", help="keep the folders of clusters whose rounds were good, too")
    parser.add_argument("--list", action="store_true", help="list the faults, and what this machine lacks")
    return parser.parse_args(arguments)


def choose(patterns: str) -> list[Fault]:
    """The faults of a comma-separated list, in its order; all without one. Raises SystemExit for an unknown one."""
    chosen = []
    for pattern in filter(None, patterns.split(",")):
        found = fnmatch.filter(FAULTS, pattern)
        if not found:
            raise SystemExit(f"no fault {pattern!r}; there are: {', '.join(FAULTS)}")
        chosen += [FAULTS[name] for name in found]
    return chosen or list(FAULTS.values())


def plan(faults: Sequence[Fault], seed: int, rounds: int) -> list[tuple[Fault, int]]:
    """Rounds in order: pass after pass over the faults, each pass with a seed of its own."""
    return [(faults[number % len(faults)], seed + number // len(faults)) for number in range(rounds)]


def secured_and_not(
    rounds: Sequence[tuple[Fault, int]], which: str
) -> tuple[list[tuple[Fault, int]], list[tuple[Fault, int]]]:
    """The rounds on clusters under TLS, and the others: of `some`, every third is without."""
    without = {"all": set(), "none": {0, 1, 2}, "some": {2}}[which]
    chosen = [number % 3 not in without for number in range(len(rounds))]
    marked = list(zip(rounds, chosen, strict=True))
    return [one for one, secured in marked if secured], [one for one, secured in marked if not secured]


@contextlib.asynccontextmanager
async def running(
    folder: Path, missing: Mapping[Capability, str], commit: str, shape: Shape = Shape()
) -> AsyncIterator[RoundRunner]:
    """A cluster in a new folder, with its network, supervision and health monitor."""
    shutil.rmtree(folder, ignore_errors=True)
    network = None if Capability.NETWORK in missing else Network((ZOOKEEPER, *CONTROLLERS, *shape.brokers))
    cluster = ChaosCluster(folder, missing, network, shape)
    security = cluster.security.for_commands() if cluster.security else contextlib.nullcontext()
    with security:
        async with _supervised(folder, cluster, network) as monitor:
            yield RoundRunner(cluster, monitor, commit)


@contextlib.asynccontextmanager
async def _supervised(folder: Path, cluster: ChaosCluster, network: Network | None) -> AsyncIterator[HealthMonitor]:
    monitor = HealthMonitor(folder, cluster.bootstrap)
    supervision = asyncio.create_task(cluster.supervise())
    try:
        await cluster.start_all()
        yield monitor
    finally:
        supervision.cancel()
        monitor.end()
        await cluster.end()
        if network is not None:
            network.close()


class Run:
    """Carries out what the table does not have, on one cluster after another."""

    def __init__(self, options: argparse.Namespace, table: Table, missing: Mapping[Capability, str]) -> None:
        self._options, self._table, self._missing = options, table, missing
        self._commit = described_commit()
        self.audits = SparkAudits(options.output, self._commit)
        self._ends_at = time.monotonic() + (math.inf if options.seconds is None else options.seconds)

    async def carry_out(self) -> None:
        parts = dict(zip((True, False), secured_and_not(self._todo(), self._options.secure), strict=True))
        for number in itertools.count(1):
            is_secured = bool(parts[True])
            todo = parts[is_secured]
            if not todo or time.monotonic() > self._ends_at:
                return
            folder = self._options.output / f"cluster-{int(time.time())}-{number}"
            await self._use_cluster(folder, todo, Shape(is_secured=is_secured))

    def _todo(self) -> list[tuple[Fault, int]]:
        """Rounds that the table does not have; those for which something is missing are reported as skipped."""
        todo = []
        faults = choose(self._options.faults)
        for fault, seed in plan(faults, self._options.seed, self._options.rounds or len(faults)):
            lacking = [self._missing[capability] for capability in sorted(fault.needs & self._missing.keys())]
            if lacking:
                skipped = Row(
                    seed=seed, fault=fault.name, verdict=Verdict.SKIPPED, commit=self._commit, problems=lacking
                )
                report(self._table, skipped)
            elif self._options.again or not self._table.has(seed, fault.name):
                todo.append((fault, seed))
        return todo

    async def _use_cluster(self, folder: Path, todo: list[tuple[Fault, int]], shape: Shape) -> None:
        """Rounds on one new cluster: until one fails, or up to one that must have its own. At least one.

        Its folder is deleted if all that it did was good, unless it is to be kept.
        """
        rounds = 0
        is_good = True
        async with running(folder, self._missing, self._commit, shape) as runner:
            while todo and is_good and time.monotonic() < self._ends_at:
                fault, seed = todo[0]
                if fault.has_own_cluster and rounds:
                    break
                del todo[0]
                row = await runner.run(fault, seed)
                report(self._table, row)
                rounds, is_good = rounds + 1, row.is_good
                if fault.has_own_cluster:
                    break
            if self._options.spark:
                await asyncio.to_thread(self.audits.read_heads, runner.cluster)
        if self._options.spark and not runner.expected.was_restored:
            audit = self.audits.run(runner.cluster, rounds, runner.expected)
            print(audit, flush=True)
            is_good = is_good and not audit.unexpected
        if is_good and not self._options.keep:
            shutil.rmtree(folder)


def report(table: Table, row: Row) -> None:
    table.add(row)
    print(
        f"{row.verdict:8} {row.fault} seed {row.seed}: {row.acknowledged} acknowledged, gap {row.longest_gap} s,"
        f" healthy after {row.healthy_after} s, {row.lasted} s in all; {'; '.join(row.choices)}",
        flush=True,
    )
    for problem in row.problems:
        print(f"         {problem}", flush=True)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    choose(options.faults)
    isolate("tests.chaos", arguments)
    # The first process of a namespace ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    missing = find_missing()
    if options.list:
        for fault in FAULTS.values():
            lacking = "; ".join(missing[c] for c in sorted(fault.needs & missing.keys()))
            print(f"{fault.name:32} {'skipped: ' + lacking if lacking else ''}".rstrip())
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    options.output = options.output.resolve()
    table = Table(options.output / "rounds.jsonl")
    run = Run(options, table, missing)
    asyncio.run(run.carry_out())
    print("\n".join([summary(table.rows.values()), *map(str, run.audits.done)]))
    is_good = all(row.is_good for row in table.rows.values()) and not any(a.unexpected for a in run.audits.done)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
