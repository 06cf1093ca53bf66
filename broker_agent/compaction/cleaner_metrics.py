"""Metrics of the log cleaner, under the names of Kafka's LogCleaner and LogCleanerManager."""

import asyncio
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from cluster.metrics.registry import Metrics

_CLEANER: Final = ("kafka.log", "LogCleaner")
_MANAGER: Final = ("kafka.log", "LogCleanerManager")


class LastCleaning(Struct, frozen=True):
    """The last cleaning of one cleaner. `utilization`: the share of the offset map that was used."""

    bytes_read: int = 0
    bytes_written: int = 0
    took_s: float = 0.0
    utilization: float = 0.0


class CleanerMetrics:
    """Set after each cleaning and each search for a dirty log."""

    def __init__(self, metrics: Metrics, directories: Iterable[str]) -> None:
        self._recopy_percent = metrics.gauge(*_CLEANER, "cleaner-recopy-percent")
        self._clean_time_s = metrics.gauge(*_CLEANER, "max-clean-time-secs")
        self._utilization_percent = metrics.gauge(*_CLEANER, "max-buffer-utilization-percent")
        self.delay_s = metrics.gauge(*_CLEANER, "max-compaction-delay-secs")
        self.dead_threads = metrics.gauge(*_CLEANER, "DeadThreadCount")
        self.dirty_percent = metrics.gauge(*_MANAGER, "max-dirty-percent")
        self.uncleanable_counts = {
            path: metrics.gauge(*_MANAGER, "uncleanable-partitions-count", logDirectory=path) for path in directories
        }
        self.uncleanable_bytes = {
            path: metrics.gauge(*_MANAGER, "uncleanable-bytes", logDirectory=path) for path in directories
        }
        self._loop = asyncio.get_running_loop()
        self._searched_at_s = self._loop.time()
        metrics.readings(*_MANAGER, "time-since-last-run-ms", self._since_last_search)

    def searched(self) -> None:
        """Record that the logs were searched for a dirty one just now."""
        self._searched_at_s = self._loop.time()

    def cleaned(self, last: Iterable[LastCleaning]) -> None:
        """Record the end of a cleaning. `last`: the last one of each cleaner."""
        cleanings = list(last)
        read = sum(cleaning.bytes_read for cleaning in cleanings)
        written = sum(cleaning.bytes_written for cleaning in cleanings)
        self._recopy_percent.set(int(100 * written / max(read, 1)))
        self._clean_time_s.set(int(max(cleaning.took_s for cleaning in cleanings)))
        self._utilization_percent.set(int(100 * max(cleaning.utilization for cleaning in cleanings)))

    def _since_last_search(self) -> Iterable[tuple[dict[str, str], float]]:
        yield {}, int(1000 * (self._loop.time() - self._searched_at_s))
