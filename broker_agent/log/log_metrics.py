"""What is measured of logs: sizes and offsets, time in fsync, progress of a recovery.

Names are those of Kafka's MBeans (kafka.log Log, LogFlushStats, LogManager; kafka.server ReplicaManager).
"""

from collections.abc import Callable, Mapping, Sized
from functools import partial
from typing import Final, Protocol

from cluster.broker import Offset
from cluster.partition import TopicPartition
from cluster.process.metrics import Gauge, Metrics, Samples

_LOG_MANAGER: Final = ("kafka.log", "LogManager")


class _Segments(Sized, Protocol):
    @property
    def size(self) -> int: ...


class MeasuredLog(Protocol):
    """As much of a log as is measured. Every member is read on the scraper's thread."""

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
    """The instruments of one agent's logs. `per_partition` false leaves out those of single logs."""

    def __init__(self, metrics: Metrics, *, per_partition: bool) -> None:
        self._metrics = metrics
        self._per_partition = per_partition
        self.producer_ids = metrics.gauge("kafka.server", "ReplicaManager", "ProducerIdCount")
        """Producers known, each once per log; every log adds and takes away its own."""
        self.flush_times = metrics.timer("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")

    def watch(self, logs: Mapping[TopicPartition, MeasuredLog]) -> None:
        """Expose what is in `logs` at each scrape."""

        def read(number: Callable[[MeasuredLog], int]) -> Samples:
            for tp, log in [*logs.items()]:
                yield {"topic": tp.topic, "partition": str(tp.partition)}, number(log)

        if self._per_partition:
            for name, number in _READINGS.items():
                self._metrics.readings("kafka.log", "Log", name, partial(read, number))

    def logs_to_recover(self, directory: str) -> Gauge:
        return self._metrics.gauge(*_LOG_MANAGER, "remainingLogsToRecover", dir=directory)

    def segments_to_recover(self, directory: str, thread: int) -> Gauge:
        """Of the log that this one of the directory's recovery threads is at."""
        return self._metrics.gauge(*_LOG_MANAGER, "remainingSegmentsToRecover", dir=directory, threadNum=thread)


UNOBSERVED: Final = LogMetrics(Metrics(), per_partition=False)
"""For logs that nobody scrapes."""
