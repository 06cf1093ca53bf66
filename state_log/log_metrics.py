"""What a node exposes of the state-change log that it writes.

Without an import of the registry at run time: readers of logs in Spark's workers import the writer, and have no
Prometheus library.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cluster.metrics.registry import Metrics

_LOG: Final = ("klamm.statelog", "StateChangeLog")


class StateChangeLogMetrics:
    """Counters of one writer. `written` and `failed` are called on the event loop, `synced` on a worker thread."""

    def __init__(self, metrics: "Metrics") -> None:
        self._records = metrics.meter(*_LOG, "RecordsPerSec")
        self._bytes = metrics.meter(*_LOG, "BytesPerSec")
        self._failures = metrics.meter(*_LOG, "FailuresPerSec")
        self._lost = metrics.meter(*_LOG, "LostRecordsPerSec")
        self._synced_at_ms = metrics.gauge(*_LOG, "LastSyncTimestampMs")

    def written(self, records: int, size: int) -> None:
        self._records.mark(records)
        self._bytes.mark(size)

    def failed(self, lost: int) -> None:
        self._failures.mark()
        self._lost.mark(lost)

    def synced(self, now_ms: int) -> None:
        self._synced_at_ms.set(now_ms)
