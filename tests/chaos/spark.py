"""The Spark audit over the state-change logs of a cluster whose rounds are over."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from audit.chains.incarnations import CLOCK_WENT_BACK
from audit.report.report import AuditResult
from audit.rules.clock_differences import CLOCK_DIFFERS
from audit.rules.durations import LEADER_FLAPPING
from cluster.model.exit_codes import ExitCode
from cluster.process.local_cluster import ZOOKEEPER
from state_log.chain import SEQUENCE_GAP
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults.registry import Expected

_FAILED: Final = "the audit failed"
_DONE: Final = (ExitCode.OK, ExitCode.FINDINGS, ExitCode.INCOMPLETE)


class SparkAudit(Struct, kw_only=True):
    """What the job found and missed in the logs of one cluster. `expected`: rules that faults of its rounds break."""

    cluster: str
    commit: str
    rounds: int
    records: int
    findings: dict[str, int]
    expected: list[str]
    gaps: list[str] = []
    """What was missing or malformed although no fault of its rounds makes it so."""

    @property
    def unexpected(self) -> list[str]:
        return [*sorted(self.findings.keys() - set(self.expected)), *self.gaps]

    def __str__(self) -> str:
        found = ", ".join(f"{count} x {rule}" for rule, count in self.findings.items()) or "nothing"
        allowed = f" (expected: {', '.join(self.expected)})" if self.expected else ""
        return (
            f"Spark audit of {self.cluster} at {self.commit}: {self.rounds} rounds, {self.records} state changes,"
            f" found {found}{allowed}{''.join(f'; incomplete: {gap}' for gap in self.gaps)}"
        )


def heads_of(cluster: ChaosCluster) -> Path:
    """Where the logs of its nodes ended when its rounds were over."""
    return cluster.folder / "heads.json"


def _rules_of(expected: Expected) -> list[str]:
    of_clocks = [CLOCK_DIFFERS, CLOCK_WENT_BACK] if expected.wrong_clocks else []
    of_gaps = [SEQUENCE_GAP] if expected.unlogged else []
    return [*of_clocks, *of_gaps, *([LEADER_FLAPPING] if expected.flaps else [])]


class SparkAudits:
    """Those of a run and of earlier ones with the same output, a line of JSON each."""

    def __init__(self, output: Path, commit: str) -> None:
        self._output, self.commit = output, commit
        self._file = output / "audits.jsonl"
        lines = self._file.read_bytes().splitlines() if self._file.exists() else []
        self.done = [msgspec.json.decode(line, type=SparkAudit) for line in lines]

    def read_heads(self, cluster: ChaosCluster) -> None:
        """Keep where the logs of a running cluster end at least. If it does not answer, the ends are not checked."""
        # The command speaks to ZooKeeper without TLS only.
        zookeeper = [] if cluster.security else ["--zookeeper", cluster.processes[ZOOKEEPER].address]
        command = [sys.executable, "-P", "-m", "klamm", "audit", "heads", "--bootstrap", ",".join(cluster.bootstrap)]
        ran = subprocess.run([*command, *zookeeper], stdout=subprocess.PIPE, check=False)
        if ran.returncode == 0:
            heads_of(cluster).write_bytes(ran.stdout)

    def run(self, cluster: ChaosCluster, rounds: int, expected: Expected) -> SparkAudit:
        """Audit a cluster that has ended, and keep what was found. The report stays beside the cluster's folder."""
        report = self._output / f"audit-{cluster.folder.name}"
        command = [sys.executable, "-P", "-m", "klamm", "audit", "run", "--once", "-o", "json", "--output", str(report)]
        for directory in cluster.state_changes:
            command += ["--log-dir", str(directory)]
        if heads_of(cluster).exists():
            command += ["--heads", str(heads_of(cluster))]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        gaps: list[str] = []
        if ran.returncode in _DONE:
            result = msgspec.json.decode(ran.stdout, type=AuditResult)
            records, findings = result.records, result.findings
            if not expected.unlogged:
                gaps = [f"{g.what}: {g.why}" for g in result.incomplete if g.what not in expected.wrong_clocks]
        else:
            records, findings = 0, {f"{_FAILED} with exit code {ran.returncode}": 1}
        audit = SparkAudit(
            cluster=cluster.folder.name,
            commit=self.commit,
            rounds=rounds,
            records=records,
            findings=findings,
            expected=_rules_of(expected),
            gaps=gaps,
        )
        self.done.append(audit)
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(audit) + b"\n")
        return audit
