"""What a running audit exposes to Prometheus: findings, verdict, progress, and how far it is behind the logs.

Values are set after each batch, on the audit's own thread; a scrape computes nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from audit.reading.log_files import LogFiles
from audit.report.backlog import backlog_bytes
from audit.report.report import AuditResult, cluster_state
from audit.report.rule_catalogue import severity_of
from audit.storage.commits import Commit
from audit.storage.file_store import Location
from audit.storage.output_folder import OutputFolder
from cluster.metrics.registry import Gauge, Metrics

_DOMAIN: Final = "klamm.audit"
_JOB, _LOG = "Job", "Log"


class AuditMetrics(StreamingQueryListener):
    """Registers with the registry; takes results from the job and the progress of batches from Spark."""

    def __init__(self, metrics: Metrics, log_dirs: Sequence[Path], output: Location) -> None:
        self._metrics, self._output = metrics, output
        self._files = LogFiles(log_dirs)
        self._verdict = metrics.text(_DOMAIN, _JOB, "Verdict")
        self._verdict.set("none")
        self._records = metrics.meter(_DOMAIN, _JOB, "Records")
        self._quarantined = metrics.gauge(_DOMAIN, _JOB, "QuarantinedLines")
        self._incomplete = metrics.gauge(_DOMAIN, _JOB, "IncompleteReasons")
        self._last_batch = metrics.gauge(_DOMAIN, _JOB, "LastBatch")
        self._batch_ms = metrics.timer(_DOMAIN, _JOB, "BatchMs")
        self._query_failures = metrics.meter(_DOMAIN, _JOB, "QueryFailures")
        self._newest = metrics.gauge(_DOMAIN, _JOB, "NewestRecordTimestampMs")
        self._backlog = metrics.gauge(_DOMAIN, _JOB, "BacklogBytes")
        self._labelled: dict[str, dict[tuple[tuple[str, object], ...], Gauge]] = {}

    def update(self, result: AuditResult) -> None:
        """Set the metrics of a result of the job, and of the state behind it in its output folder."""
        folder = OutputFolder(self._output)
        commit = folder.last_commit()
        self._verdict.set(result.verdict)
        self._records.mark(result.records - self._records.count)
        self._quarantined.set(result.quarantined)
        self._incomplete.set(len(result.incomplete))
        self._set(
            "Findings", {(("rule", rule), ("severity", severity_of(rule))): n for rule, n in result.findings.items()}
        )
        self._set("StateRows", {(("run", name),): n for name, n in _state_rows(commit).items()})
        last_at_ms = cluster_state(folder, commit).last_at_ms
        self._newest.set(max(last_at_ms.values(), default=0))
        self.update_backlog(commit)

    def update_backlog(self, commit: Commit | None) -> None:
        """Set how far the audit is behind the ends of the logs."""
        backlog = backlog_bytes(self._files, commit)
        self._backlog.set(sum(backlog.values()))
        self._set("BacklogBytes", {(("log", log),): size for log, size in backlog.items()}, _LOG)

    def _set(self, name: str, values: Mapping[tuple[tuple[str, Any], ...], float], type_: str = _JOB) -> None:
        """Set a metric for each of these labels, and remove those of others."""
        known = self._labelled.setdefault(name + type_, {})
        for labels in [labels for labels in known if labels not in values]:
            del known[labels]
            self._metrics.remove(_DOMAIN, type_, name, **dict(labels))
        for labels, value in values.items():
            if labels not in known:
                known[labels] = self._metrics.gauge(_DOMAIN, type_, name, **dict(labels))
            known[labels].set(value)

    # Spark's own progress; method names are Spark's. Called on a thread of its callbacks.

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: the first batch says more."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        self._last_batch.set(progress.batchId)
        if progress.numInputRows:
            self._batch_ms.update_ms(progress.durationMs.get("triggerExecution", 0))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: the backlog says so."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if event.exception is not None:
            self._query_failures.mark()


def _state_rows(commit: Commit | None) -> Counter[str]:
    rows: Counter[str] = Counter()
    for state in () if commit is None else commit.buckets.values():
        for name, runs in state.runs.items():
            rows[name] += sum(run.rows for run in runs)
    return rows
