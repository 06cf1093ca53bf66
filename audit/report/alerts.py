"""What a running audit reports: progress on stderr, metrics, a webhook; and whether it has seen enough."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import typer

from audit.reading.log_files import LogFiles, advance, ends
from audit.records.findings import CLEAN
from audit.report.backlog import positions_of
from audit.report.metrics import AuditMetrics
from audit.report.report import AuditResult
from audit.report.webhook import Webhook, check_url
from audit.storage.file_store import Location
from audit.storage.output_folder import OutputFolder
from cluster.config.config import host_and_port
from cluster.metrics.registry import Metrics
from cluster.metrics.server import serve_metrics


class Alerts:
    """Serves metrics from `__enter__` to `__exit__`. `listener` is for Spark; None without metrics."""

    def __init__(
        self, log_dirs: Sequence[Path], output: Location, metrics_listen: str, webhook: str, *, until_clean: bool
    ) -> None:
        """An empty address stands for none. Raises BadParameter for a malformed one."""
        metrics = Metrics()
        self._metrics, self._listen = metrics, _checked("--metrics-listen", metrics_listen, host_and_port)
        self.listener = AuditMetrics(metrics, log_dirs, output) if metrics_listen else None
        self._webhook = Webhook(_checked("--webhook", webhook, check_url), output, metrics) if webhook else None
        self._until_clean = UntilClean(log_dirs, output) if until_clean else None
        self._stop_serving: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        """Start to serve. Raises StartupError if the address of the metrics cannot be bound."""
        if self._listen:
            address, self._stop_serving = serve_metrics(self._metrics, self._listen)
            typer.echo(f"metrics: http://{address}/metrics", err=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_serving()

    def progress(self, result: AuditResult) -> bool:
        """Report a result; whether the audit may stop."""
        typer.echo(f"{result.records} records, {sum(result.findings.values())} findings", err=True)
        self.finish(result)
        return self._until_clean is not None and self._until_clean.reached(result)

    def retry(self) -> bool:
        """Send again what the webhook did not accept, if it is time; never a reason to stop the audit."""
        if self._webhook is not None:
            self._webhook.retry()
        return False

    def finish(self, result: AuditResult) -> None:
        """Report the last result."""
        if self.listener is not None:
            self.listener.update(result)
        if self._webhook is not None:
            self._webhook.update(result)


def _checked(option: str, address: str, check: Callable[[str], object]) -> str:
    if address:
        try:
            check(address)
        except ValueError as error:
            raise typer.BadParameter(f"{address}: {error}", param_hint=option) from None
    return address


class UntilClean:
    """Tells when an audit that follows the logs may stop: once what was there at its start is read and all is well."""

    def __init__(self, log_dirs: Sequence[Path], output: Location) -> None:
        self._folder = OutputFolder(output)
        self._target = advance({}, ends(LogFiles(log_dirs).logs(), {}), None)

    def reached(self, result: AuditResult) -> bool:
        """Whether everything was read, and nothing is wrong or missing."""
        commit = self._folder.last_commit()
        if result.verdict != CLEAN or commit is None:
            return False
        read = positions_of(commit)
        return all(log in read and read[log] >= end for log, end in self._target.items())
