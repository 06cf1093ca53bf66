"""Audits the logs of simulated clusters, which are clean: `python -m tests.audit_corpus.clean_logs FIRST LAST`."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from audit.report.report import AuditResult
from state_log.invariants import BROKEN_BY_POWER_FAILURES
from tests.log_audits import audit_folder


def simulated_logs(folder: Path, seed: int, *options: str) -> Path:
    """The state-change logs of one run of the simulator."""
    arguments = ["--seeds", f"{seed}..{seed}", "--jobs", "1", "--output", str(folder), *options]
    subprocess.run([sys.executable, "-P", "-m", "klamm", "simulate", *arguments], check=True, capture_output=True)
    return folder / f"seed-{seed}"


def audits_of_seeds(first: int, last: int) -> Iterator[tuple[int, AuditResult]]:
    """The audit of the run of each seed."""
    for seed in range(first, last + 1):
        with tempfile.TemporaryDirectory() as folder:
            yield seed, audit_folder(simulated_logs(Path(folder), seed), Path(folder, "audit"), 1 << 20)


def main(first: str, last: str) -> int:
    """0 if all are clean, but for what power failures of all replicas take. A line for each seed."""
    unclean = 0
    for seed, result in audits_of_seeds(int(first), int(last)):
        unclean += bool(set(result.findings) - BROKEN_BY_POWER_FAILURES or result.incomplete)
        gaps = [f"{gap.what}: {gap.why}" for gap in result.incomplete]
        print(
            f"seed {seed:<6} {result.records:>7} records  {result.verdict}  {result.findings or ''} {gaps or ''}",
            flush=True,
        )
    print(f"{int(last) - int(first) + 1 - unclean} clean, {unclean} not")
    return 1 if unclean else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
