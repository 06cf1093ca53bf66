"""Metrics of logs: sizes and offsets, fsync times, recovery progress.

Names are those of Kafka's MBeans (kafka.log Log, LogFlushStats, LogManager; kafka.server ReplicaManager).
"""

from collections.abc import Callable, Mapping, Sized
from functools import partial
from typing import Final, Protocol

from cluster.metrics.registry import Gauge, Metrics, Samples
from cluster.model.broker import Offset
from cluster.model.partition import TopicPartition

_LOG_MANAGER: Final = ("kafka.log", "LogManager")


class _Segments(Sized, Protocol):
    @property
    def size(self) -> int: ...


class MeasuredLog(Protocol):
    """The measured attributes of a log. Read by the scraper's thread."""

    @property
    def log_start_offset(self) -> Offset: ...

    @property
    def log_end_offset(self) -> Offset: ...

    @property
    def segments(self) -> _Segments: ...


_READINGS: Final[Mapping[str, Callable[[MeasuredLog], int]]] = {
    "NumLogSegments": lambda log: len(log.segments),
    "LogStartOffset": lambda log: log.log_start_offset,
    "LogEndOffset": lambda log: log.log_end_offset,
    "Size": lambda log: log.segments.size,
}


class LogMetrics:
    """The metrics of one agent's logs. With `per_partition` False there are none of single logs."""

    def __init__(self, metrics: Metrics, *, per_partition: bool) -> None:
        self._metrics = metrics
        self._per_partition = per_partition
        self.producer_ids = metrics.gauge("kafka.server", "ReplicaManager", "ProducerIdCount")
        """Known producers, each counted once per log; every log adds and removes its own."""
        self.flush_times = metrics.timer("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")

    def watch(self, logs: Mapping[TopicPartition, MeasuredLog]) -> None:
        """Expose the logs in `logs` at each scrape."""

        def read(number: Callable[[MeasuredLog], int]) -> Samples:
            for tp, log in [*logs.items()]:
                yield {"topic": tp.topic, "partition": str(tp.partition)}, number(log)

        if self._per_partition:
            for name, number in _READINGS.items():
                self._metrics.readings("kafka.log", "Log", name, partial(read, number))

    def logs_to_recover(self, directory: str) -> Gauge:
        return self._metrics.gauge(*_LOG_MANAGER, "remainingLogsToRecover", dir=directory)

    def segments_to_recover(self, directory: str, thread: int) -> Gauge:
        """Segments left to recover in the current log of a recovery thread of the directory."""
        return self._metrics.gauge(*_LOG_MANAGER, "remainingSegmentsToRecover", dir=directory, threadNum=thread)

    def recovered(self, directory: str, threads: int) -> None:
        """All logs of the directory are loaded: what was left to recover is shown no more, as by Kafka."""
        self._metrics.remove(*_LOG_MANAGER, "remainingLogsToRecover", dir=directory)
        for thread in range(threads):
            self._metrics.remove(*_LOG_MANAGER, "remainingSegmentsToRecover", dir=directory, threadNum=thread)


UNOBSERVED: Final = LogMetrics(Metrics(), per_partition=False)
"""For logs without exposed metrics."""
