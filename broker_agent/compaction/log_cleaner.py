"""Compacts the logs of one agent in the background, the dirtiest first.

Every replica is cleaned on its own, led here or not. Source: Kafka LogCleaner, LogCleanerManager.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import structlog
from msgspec import Struct

from broker_agent.compaction.cleaner_metrics import CleanerMetrics, LastCleaning
from broker_agent.compaction.log_cleaning import CleaningAbortedError, CleaningTools, LogCleaning, extent_of
from broker_agent.compaction.offset_map import ENTRY_BYTES, OffsetMap
from broker_agent.decisions.compaction import CompactionPolicy, LogDirt, LogExtent, measure_dirt
from broker_agent.log.config import LogConfig
from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.partition_log import PartitionLog
from cluster.aio.clock import WallClock
from cluster.aio.rate_limiter import RateLimiter
from cluster.aio.slices import in_slices
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import Finding

UNCLEANABLE_PARTITION: Final = "uncleanable_partition"
OPEN_TRANSACTION: Final = "open_transaction"
DEAD_LOG_CLEANER: Final = "dead_log_cleaner"
_PIECE_BYTES_MIN: Final = 1 << 16
_log = structlog.stdlib.get_logger()


class _LogState(NamedTuple):
    """What is different once the cause may be gone: the log was truncated, lost records by retention or at somebody's
    request, or has other settings.
    """

    cuts: int
    log_start: Offset
    config: LogConfig

    @classmethod
    def of(cls, log: PartitionLog) -> "_LogState":
        return cls(log.cuts, log.log_start_offset, log.config)


class _Uncleanable(Struct, frozen=True):
    log: PartitionLog
    why: str
    state: _LogState

    @property
    def is_over(self) -> bool:
        return self.state != _LogState.of(self.log)


class LogCleaner:
    """As many cleaners as `log.cleaner.threads`, each with a share of the memory for keys.

    A log that cannot be cleaned is left out until it is changed, and the others are cleaned. (Kafka leaves it out until
    the broker is restarted.)
    """

    def __init__(
        self, own_id: BrokerId, logs: LogDirectories, settings: Settings, metrics: Metrics, clock: WallClock
    ) -> None:
        self._own_id, self._logs, self._clock = own_id, logs, clock
        self._metrics = CleanerMetrics(metrics, logs.directories)
        self._is_enabled = settings.log_cleaner_enable
        self._backoff_s = settings.log_cleaner_backoff_ms / 1000
        threads = settings.log_cleaner_threads
        capacity = int(
            settings.log_cleaner_dedupe_buffer_size * settings.log_cleaner_io_buffer_load_factor / threads / ENTRY_BYTES
        )
        limiter = RateLimiter(settings.log_cleaner_io_max_bytes_per_second)
        piece_bytes = max(_PIECE_BYTES_MIN, settings.log_cleaner_io_buffer_size // threads // 2)
        self._tools = [
            CleaningTools(logs.disk, OffsetMap(capacity), limiter.pass_bytes, piece_bytes) for _ in range(threads)
        ]
        self._last = [LastCleaning() for _ in self._tools]
        self._being_cleaned: set[PartitionLog] = set()
        self._uncleanable: dict[TopicPartition, _Uncleanable] = {}
        self._died_of: list[str] = []

    async def run(self) -> None:
        """Clean until cancelled; returns at once if the cleaner is disabled."""
        if self._is_enabled:
            await asyncio.gather(*map(self._run_cleaner, range(len(self._tools))))

    def findings(self) -> Iterator[Finding]:
        """Name the logs that are not compacted although they are to be, and say why."""
        for (topic, partition), uncleanable in self._uncleanable.items():
            detail = (
                f"broker {self._own_id} cannot compact its replica, which grows: {uncleanable.why}; it is left out "
                "until it is changed, as by truncation, retention, another setting or another log directory, or the "
                "broker is restarted"
            )
            yield Finding(UNCLEANABLE_PARTITION, detail, topic, partition, self._own_id)
        for (topic, partition), log in self._logs.all_logs().items():
            since = log.first_unstable_offset if log.config.is_compacted else None
            if since is not None:
                producers = ", ".join(str(producer) for producer, at in log.producers.open_since.items() if at == since)
                detail = (
                    f"broker {self._own_id} compacts its replica only below offset {since}: a transaction of producer "
                    f"{producers} is open since offset {since}, and only brokers of Apache Kafka, which wrote it, can "
                    "end it; copy the records that are needed to another topic"
                )
                yield Finding(OPEN_TRANSACTION, detail, topic, partition, self._own_id)
        for why in self._died_of:
            detail = f"a log cleaner of broker {self._own_id} has ended by an error, restart the broker: {why}"
            yield Finding(DEAD_LOG_CLEANER, detail, broker=self._own_id)

    async def _run_cleaner(self, number: int) -> None:
        try:
            while True:
                if not await self.clean_dirtiest(number):
                    await asyncio.sleep(self._backoff_s)
        except Exception as error:  # The logs are served all the same.
            _log.exception("Log cleaner has ended", cleaner=number)
            self._died_of.append(repr(error))
            self._metrics.dead_threads.inc()

    async def clean_dirtiest(self, number: int = 0) -> bool:
        """Clean the dirtiest log that is due, with the tools of the cleaner `number`; whether one was cleaned."""
        found = await self._find_dirtiest()
        if found is None:
            return False
        log, dirt = found
        self._being_cleaned.add(log)
        try:
            flushed = await self._flush(log, dirt)
            # The log may have been truncated meanwhile. Nothing is awaited from here to the start of the cleaning.
            if not self._may_be_cleaned(log):
                return False
            dirt = self._measure(log, below=flushed)
            return dirt.cleanable_bytes > 0 and await self._clean(number, log, dirt)
        except CleaningAbortedError:
            _log.info("Cleaning of a log was aborted: it was truncated or deleted", partition=str(log.topic_partition))
        except StorageError as error:
            _log.warning("Cleaning a log failed", partition=str(log.topic_partition), why=str(error))
        except Exception as error:  # Whatever is wrong with one log, the others are cleaned.
            self._mark_uncleanable(log, error)
        finally:
            self._being_cleaned.discard(log)
            self._tools[number].newest.clear()
        return False

    def _mark_uncleanable(self, log: PartitionLog, error: Exception) -> None:
        why = str(error) or repr(error)
        _log.warning(
            "Log cannot be compacted", partition=str(log.topic_partition), path=log.path, why=why, exc_info=error
        )
        self._uncleanable[log.topic_partition] = _Uncleanable(log, why, _LogState.of(log))
        self._count_uncleanable()

    # Choosing

    async def _find_dirtiest(self) -> tuple[PartitionLog, LogDirt] | None:
        """Find the log with the largest share of dirty bytes among those that are due."""
        self._forget_changed()
        dirtiest: tuple[PartitionLog, LogDirt] | None = None
        ratio, delay_ms = 0.0, 0
        # Nothing is cleanable in a log of one segment, the active one: of thousands most are that, or not compacted.
        logs = [log for log in self._logs.all_logs().values() if len(log.segments) > 1 and log.config.is_compacted]
        async for log in in_slices(logs):
            if log in self._being_cleaned or log.is_closed:
                continue
            if log.topic_partition in self._uncleanable or not self._may_be_cleaned(log):
                continue
            if not self._has_room(log):
                continue
            dirt = self._measure(log)
            ratio, delay_ms = max(ratio, dirt.ratio), max(delay_ms, dirt.delay_ms)
            if dirt.is_due(log.config.min_cleanable_dirty_ratio) and (
                dirtiest is None or dirt.ratio > dirtiest[1].ratio
            ):
                dirtiest = log, dirt
        self._metrics.searched()
        self._metrics.dirty_percent.set(int(100 * ratio))
        self._metrics.delay_s.set(delay_ms // 1000)
        return None if dirtiest is None or dirtiest[0].is_closed else dirtiest

    def _may_be_cleaned(self, log: PartitionLog) -> bool:
        """Whether its topic is compacted, and it is not being moved to another directory."""
        return log.config.is_compacted and log.topic_partition not in self._logs.paused

    def _has_room(self, log: PartitionLog) -> bool:
        """Whether its directory has room for what compaction writes at a time before it removes anything."""
        directory = self._logs.directories[log.directory]
        return directory.has_room_to_clean(min(log.size, log.config.segment_bytes))

    def _measure(self, log: PartitionLog, below: Offset | None = None) -> LogDirt:
        """Measure how dirty a log is; `below`: only offsets below are cleaned."""
        extent = LogExtent(
            [extent_of(segment) for segment in log.segments],
            log_start=log.log_start_offset,
            log_end=log.log_end_offset,
            last_stable=log.last_stable_offset if below is None else min(log.last_stable_offset, below),
            first_dirty=log.first_dirty_offset or None,
        )
        policy = CompactionPolicy(log.config.min_compaction_lag_ms, log.config.max_compaction_lag_ms)
        return measure_dirt(extent, policy, self._clock.now_ms())

    def _forget_changed(self) -> None:
        """Try those again that were changed, and forget those that are no longer there."""
        known = self._uncleanable.items()
        gone = [tp for tp, found in known if self._logs.get(tp) is not found.log or found.is_over]
        for topic_partition in gone:
            del self._uncleanable[topic_partition]
        if gone or self._uncleanable:
            self._count_uncleanable()

    def _count_uncleanable(self) -> None:
        for path, gauge in self._metrics.uncleanable_counts.items():
            logs = [uncleanable.log for uncleanable in self._uncleanable.values() if uncleanable.log.directory == path]
            gauge.set(len(logs))
            self._metrics.uncleanable_bytes[path].set(sum(self._measure(log).cleanable_bytes for log in logs))

    # Cleaning

    async def _flush(self, log: PartitionLog, dirt: LogDirt) -> Offset:
        """Flush what is going to be cleaned, and checkpoint that; returns the offset up to which it is done.

        Above a checkpointed recovery point the next start takes leader epochs from the batches: an epoch whose first
        records were cleaned away would begin later than it did. Raises StorageError.
        """
        if log.recovery_point < dirt.first_uncleanable:
            await log.flush()
        flushed = log.recovery_point
        await self._logs.write_recovery_points_of(log.directory)
        return min(flushed, log.recovery_point)

    async def _clean(self, number: int, log: PartitionLog, dirt: LogDirt) -> bool:
        """Clean one log. Raises CleaningAbortedError, StorageError, and any error of what is in the log."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        is_permitted = partial(self._may_be_cleaned, log)
        cleaning = LogCleaning(log, dirt, self._tools[number], self._clock.now_ms(), is_permitted)
        end = await cleaning.run()
        log.first_dirty_offset = end
        await self._logs.write_cleaner_offsets_of(log.directory)
        stats, took_s = cleaning.stats, loop.time() - began_s
        self._last[number] = LastCleaning(
            stats.bytes_read, stats.bytes_written, took_s, self._tools[number].newest.utilization
        )
        self._metrics.cleaned(self._last)
        _log.info(
            "Log was compacted",
            partition=str(log.topic_partition),
            dirty_from=dirt.first_dirty,
            dirty_to=end,
            bytes_read=stats.bytes_read,
            bytes_written=stats.bytes_written,
            records_read=stats.records_read,
            records_written=stats.records_written,
            records_without_key=stats.records_without_key,
            seconds=round(took_s, 3),
        )
        return True
