"""Replays the decisions in the logs of simulated clusters: `python -m tests.audit_corpus.replayed_logs FIRST LAST`."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from controller.replay.logs import replay_records
from controller.replay.replay import Replayed
from simulator.command import run_seed, without_diagnostics
from simulator.run import NodeLog
from simulator.seeds import run_all
from state_log.record import LoggedStateChange, MalformedLine, decode_line

_MINUTES = 3


class ReplayedSeed(NamedTuple):
    """The replay of the logs of one seed. `violations`: rules that the simulator itself saw violated."""

    seed: int
    records: int
    replayed: Replayed
    violations: tuple[str, ...] = ()

    def __str__(self) -> str:
        found = [
            f"\n    {each.record} {each.decision}: {each.decided}; {each.instead}" for each in self.replayed.others
        ]
        missing = [f"\n    {count} x {what}: {first}" for what, (count, first) in self.replayed.undecided.items()]
        sums = f"{self.records:>7} records {self.replayed.decisions.total():>7} decisions"
        violated = f"  simulator: {', '.join(self.violations)}" if self.violations else ""
        return f"seed {self.seed:<6} {sums}{violated}" + "".join([*found, *missing])


def records_of(logs: Sequence[NodeLog]) -> dict[str, list[LoggedStateChange]]:
    """The records of each log, by `node/incarnation`."""
    found: dict[str, list[LoggedStateChange]] = {}
    for log in logs:
        records = [decode_line(line) for line in log.lines]
        found[f"{log.node}/{log.incarnation}"] = [r for r in records if not isinstance(r, MalformedLine)]
        assert len(found[f"{log.node}/{log.incarnation}"]) == len(log.lines)
    return found


def replay_seed(seed: int) -> ReplayedSeed:
    """Simulate a cluster, and replay what its controllers decided."""
    with without_diagnostics():
        run = run_seed(seed, _MINUTES)
    logs = records_of(run.logs)
    violated = tuple(violation.rule for violation in run.result.violations)
    return ReplayedSeed(seed, sum(map(len, logs.values())), replay_records(logs), violated)


def replays_of_seeds(first: int, last: int, jobs: int = 1) -> Iterator[ReplayedSeed]:
    """The replay of each seed, in the order in which they end."""
    return run_all(range(first, last + 1), replay_seed, jobs)


def main(first: str, last: str) -> int:
    """0 if the code decides as in the logs. A line for each seed, then the sums."""
    sums, records, others, undecided = Counter[str](), 0, 0, 0
    for done in replays_of_seeds(int(first), int(last), len(os.sched_getaffinity(0))):
        print(done, flush=True)
        sums += done.replayed.decisions
        records += done.records
        others += len(done.replayed.others)
        undecided += sum(count for count, _ in done.replayed.undecided.values())
    print(*(f"{count:>8}  {name}" for name, count in sorted(sums.items())), sep="\n")
    print(f"{records} records, {sums.total()} decisions: {others} otherwise, {undecided} not decided")
    return 1 if others or undecided else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
