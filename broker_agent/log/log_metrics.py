"""Metrics of logs: sizes and offsets, fsync times, recovery progress.

The names are those of the MBeans of Kafka (kafka.log Log, LogFlushStats, LogManager; kafka.server ReplicaManager).
"""

from collections.abc import Callable
from typing import Final

from cluster.metrics.registry import Gauge, Metrics, Samples

_LOG_MANAGER: Final = ("kafka.log", "LogManager")


class LogMetrics:
    """The metrics of one agent's logs. With `per_partition` False there are none of single logs."""

    def __init__(self, metrics: Metrics, *, per_partition: bool) -> None:
        self._metrics = metrics
        self._per_partition = per_partition
        self.producer_ids = metrics.gauge("kafka.server", "ReplicaManager", "ProducerIdCount")
        """Known producers, each counted once per log; every log adds and removes its own."""
        self.flush_times = metrics.timer("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")

    def expose(self, name: str, read: Callable[[], Samples]) -> None:
        """Call `read` at each scrape, on the scraper's thread, for a metric of single logs."""
        if self._per_partition:
            self._metrics.readings("kafka.log", "Log", name, read)

    def logs_to_recover(self, directory: str) -> Gauge:
        return self._metrics.gauge(*_LOG_MANAGER, "remainingLogsToRecover", dir=directory)

    def segments_to_recover(self, directory: str, thread: int) -> Gauge:
        """The segments left to recover in the current log of a recovery thread of the directory."""
        return self._metrics.gauge(*_LOG_MANAGER, "remainingSegmentsToRecover", dir=directory, threadNum=thread)

    def recovered(self, directory: str, threads: int) -> None:
        """Remove the gauges of what was left to recover: all logs of the directory are loaded."""
        self._metrics.remove(*_LOG_MANAGER, "remainingLogsToRecover", dir=directory)
        for thread in range(threads):
            self._metrics.remove(*_LOG_MANAGER, "remainingSegmentsToRecover", dir=directory, threadNum=thread)


UNOBSERVED: Final = LogMetrics(Metrics(), per_partition=False)
"""For logs without exposed metrics."""
