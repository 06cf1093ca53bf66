"""Audits the logs of simulated clusters, which are clean: `python -m tests.audit_corpus.clean_logs FIRST LAST`."""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from audit.report.report import AuditResult, read_findings
from state_log.invariants import InvariantViolation
from state_log.machine_restarts import is_explained
from state_log.reader import read_state_changes
from tests.audits.log_audits import audit_folder

_ALL = 1_000_000


class SeedAudit(NamedTuple):
    """The audit of the run of a seed. `of_power_failures`: findings that the logs themselves explain, as the machine
    of another replica was restarted before; `unexplained`: all others, and what was incomplete.
    """

    seed: int
    result: AuditResult
    of_power_failures: list[str]
    unexplained: list[str]

    def __str__(self) -> str:
        explained = f"{len(self.of_power_failures)} of power failures" if self.of_power_failures else ""
        return f"seed {self.seed:<6} {self.result.records:>7} records  {self.result.verdict}  {explained}" + "".join(
            f"\n    {each}" for each in self.unexplained
        )


def simulated_logs(folder: Path, seed: int, *options: str) -> Path:
    """The state-change logs of one run of the simulator, which must find no violation itself."""
    arguments = ["--seeds", f"{seed}..{seed}", "--jobs", "1", "--output", str(folder), *options]
    command = [sys.executable, "-P", "-m", "klamm", "simulate", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder / f"seed-{seed}"


def audits_of_seeds(seeds: Iterable[int]) -> Iterator[SeedAudit]:
    """The audit of the run of each seed."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            logs, output = simulated_logs(Path(folder), seed), Path(folder, "audit")
            yield _sorted(seed, logs, audit_folder(logs, output, 1 << 20), read_findings(output, _ALL))


def _sorted(seed: int, logs: Path, result: AuditResult, findings: Iterable[Mapping[str, Any]]) -> SeedAudit:
    records = list(read_state_changes([logs]))
    explained, unexplained = [], [f"{gap.what}: {gap.why}" for gap in result.incomplete]
    for row in findings:
        found = InvariantViolation(row["rule"], row["message"], tuple(row["records"]), row["topic"], row["partition"])
        of_power_failure = is_explained(found, records)
        assert of_power_failure == any("machine was restarted" in cause for cause in row["causes"]), row
        text = f"{found.rule} {found.topic}-{found.partition}: {found.message} [{', '.join(found.records)}]"
        (explained if of_power_failure else unexplained).append(text)
    return SeedAudit(seed, result, explained, unexplained)


def main(first: str, last: str) -> int:
    """0 if all are clean, but for what power failures took. A line for each seed, then the sum."""
    audits = []
    for audit in audits_of_seeds(range(int(first), int(last) + 1)):
        print(audit, flush=True)
        audits.append(audit)
    bad = sum(bool(audit.unexplained) for audit in audits)
    powerless = sum(bool(audit.of_power_failures) for audit in audits)
    records, lost = sum(a.result.records for a in audits), sum(len(a.of_power_failures) for a in audits)
    print(f"{len(audits)} seeds, {records} records: {len(audits) - bad - powerless} clean, {bad} not,")
    print(f"{powerless} with {lost} findings of what power failures took")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
