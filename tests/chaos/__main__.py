"""`python -m tests.chaos`: rounds of faults on a real cluster; see README.md beside this file."""

import argparse
import asyncio
import contextlib
import fnmatch
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from cluster.local_cluster import ZOOKEEPER
from cluster.process.exit_codes import ExitCode
from state_log.chain import SEQUENCE_GAP
from tests.chaos.cluster import BROKERS, CONTROLLERS, ChaosCluster
from tests.chaos.faults import disks, files, links, mixes, processes, zookeeper
from tests.chaos.faults.registry import FAULTS, Fault
from tests.chaos.isolation import Capability, find_missing, isolate
from tests.chaos.network import Network
from tests.chaos.rounds import HealthMonitor, RoundRunner
from tests.chaos.table import Row, Table, Verdict, summary

ROOT = Path(__file__).resolve().parents[2]
_OF_GAPS = frozenset({SEQUENCE_GAP})
_DONE = (ExitCode.OK, ExitCode.FINDINGS, ExitCode.INCOMPLETE)
REGISTERED = (processes, links, disks, files, zookeeper, mixes)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, help="default: each fault once")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first pass over the faults; each has its own")
    parser.add_argument("--faults", default="", help="comma-separated; default: all; * matches")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "chaos", help="the table, and failed rounds")
    parser.add_argument("--again", action="store_true", help="also rounds that the table has already")
    parser.add_argument("--spark", action="store_true", help="run the Spark audit over the state-change logs, too")
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


@contextlib.asynccontextmanager
async def running(folder: Path, missing: Mapping[Capability, str], commit: str) -> AsyncIterator[RoundRunner]:
    """A cluster in a new folder, with its network, supervision and health monitor."""
    shutil.rmtree(folder, ignore_errors=True)
    network = None if Capability.NETWORK in missing else Network((ZOOKEEPER, *CONTROLLERS, *BROKERS))
    cluster = ChaosCluster(folder, missing, network)
    monitor = HealthMonitor(folder, cluster.bootstrap)
    supervision = asyncio.create_task(cluster.supervise())
    try:
        await cluster.start_all()
        yield RoundRunner(cluster, monitor, commit)
    finally:
        supervision.cancel()
        monitor.end()
        await cluster.end()
        if network is not None:
            network.close()


async def run_rounds(options: argparse.Namespace, table: Table, missing: Mapping[Capability, str]) -> list[str]:
    """Carry out what the table does not have. After a round that failed or restored ZooKeeper, a new cluster begins.

    Returns what the Spark audit found, if it was asked for.
    """
    findings = []
    commit = _commit()
    todo = []
    faults = choose(options.faults)
    for fault, seed in plan(faults, options.seed, options.rounds or len(faults)):
        lacking = sorted(fault.needs & missing.keys())
        if lacking:
            reasons = [missing[capability] for capability in lacking]
            report(table, Row(seed=seed, fault=fault.name, verdict=Verdict.SKIPPED, commit=commit, problems=reasons))
        elif options.again or not table.has(seed, fault.name):
            todo.append((fault, seed))
    number = 0
    while todo:
        number += 1
        folder = options.output / f"cluster-{int(time.time())}-{number}"
        async with running(folder, missing, commit) as runner:
            while todo:
                row = await runner.run(*todo.pop(0))
                report(table, row)
                if not row.is_good or runner.expected.was_restored:
                    break
        if options.spark and not runner.expected.was_restored:
            findings += audit_with_spark(folder, options.output, has_gaps=bool(runner.expected.unlogged))
    return findings


def report(table: Table, row: Row) -> None:
    table.add(row)
    print(
        f"{row.verdict:8} {row.fault} seed {row.seed}: {row.acknowledged} acknowledged, gap {row.longest_gap} s,"
        f" healthy after {row.healthy_after} s, {row.lasted} s in all; {'; '.join(row.choices)}",
        flush=True,
    )
    for problem in row.problems:
        print(f"         {problem}", flush=True)


def audit_with_spark(folder: Path, output: Path, *, has_gaps: bool) -> list[str]:
    """What the Spark job finds or misses in the logs of one cluster, but for gaps that a fault made."""
    report, logs = output / f"audit-{folder.name}", folder / "state-changes"
    command = [sys.executable, "-P", "-m", "klamm", "audit", "run", "--once", "-o", "json"]
    ran = subprocess.run(
        [*command, "--log-dir", str(logs), "--output", str(report)], stdout=subprocess.PIPE, text=True, check=False
    )
    if ran.returncode not in _DONE:
        return [f"the Spark audit of {logs} failed with exit code {ran.returncode}"]
    result = json.loads(ran.stdout)
    findings = {rule: count for rule, count in result["findings"].items() if not has_gaps or rule not in _OF_GAPS}
    found = [f"the Spark audit of {logs} found {findings[rule]} x {rule}; its report: {report}" for rule in findings]
    gaps = [] if has_gaps else result["incomplete"]
    return found + [f"the Spark audit of {logs} is incomplete: {gap['what']}: {gap['why']}" for gap in gaps]


def _commit() -> str:
    described = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(described, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    choose(options.faults)
    isolate(arguments)
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
    findings = asyncio.run(run_rounds(options, table, missing))
    print("\n".join([summary(table.rows.values()), *findings]))
    return 0 if all(row.is_good for row in table.rows.values()) and not findings else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
