"""All copies between the log directories of this broker: which copier has which partition, and the failed ones.

Source: Kafka ReplicaAlterLogDirsManager; KIP-113.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from zlib import crc32

import structlog

from broker_agent.replica_changes import DIRECTORY_FAILED, ReplicaMoveAbandoned
from broker_agent.replication.copy_throttle import CopyThrottle
from broker_agent.replication.fetch_states import FetchState
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.log_dir_copier import CopySetup, LogDirCopier, cut_state, directory_move, first_state
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.aio.tasks import TaskSet
from cluster.model.broker import Offset
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import Finding
from state_log.record import Cause

_METRICS: Final = ("kafka.server", "ReplicaAlterLogDirsManager")
_METRICS_REFRESH_S: Final = 1.0
_log = structlog.stdlib.get_logger()


class _Running(NamedTuple):
    copier: LogDirCopier
    task: asyncio.Task[None]


class LogDirCopies:
    """Adds and removes copies; both are synchronous, and what is in flight is dropped. `lock`: the replica state change
    lock.
    """

    def __init__(self, manager: ReplicaManager, tasks: TaskSet, lock: asyncio.Lock) -> None:
        settings = manager.settings
        self.throttle = CopyThrottle(settings.replica_alter_log_dirs_io_max_bytes_per_second)
        self._manager, self._tasks = manager, tasks
        self._failed: dict[TopicPartition, str] = {}
        self._setup = CopySetup(manager, lock, self.throttle, self._failed)
        self._running: dict[int, _Running] = {}
        self._is_closed = False
        threads = settings.num_replica_alter_log_dirs_threads
        self._threads = len(manager.logs.directories) if threads is None else threads
        registry, tags = manager.metrics.registry, {"clientId": "ReplicaAlterLogDirs"}
        self._max_lag = registry.gauge(*_METRICS, "MaxLag", **tags)
        self._min_rate = registry.gauge(*_METRICS, "MinFetchRate", **tags)
        self._failed_count = registry.gauge(*_METRICS, "FailedPartitionsCount", **tags)
        self._dead_count = registry.gauge(*_METRICS, "DeadThreadCount", **tags)
        manager.on_truncation = self.mark_for_truncation

    @property
    def failed(self) -> tuple[TopicPartition, ...]:
        """The partitions that are not copied until the next LeaderAndIsr."""
        return tuple(self._failed)

    def findings(self) -> Iterator[Finding]:
        """Report the moves that have stopped by an error."""
        own_id = self._manager.own_id
        for tp, why in self._failed.items():
            partition = self._manager.online(tp)
            if partition is not None and partition.future_log is not None:
                detail = (
                    f"broker {own_id}: {tp} is not copied to {partition.future_log.directory} any more: {why}; ask"
                    " again with 'klamm brokers move-dir', or end the move by asking for the directory where it is"
                )
                yield Finding("stuck_directory_move", detail, *tp, own_id)

    def state(self, tp: TopicPartition) -> FetchState | None:
        running = self._running.get(self._number(tp))
        return None if running is None else running.copier.states.get(tp)

    def resume(self, partitions: Iterable[HostedPartition]) -> None:
        """Copy those of the partitions of which there is a copy, in their leader epochs; one that is being copied in
        the same epoch continues (R2.13).
        """
        for partition in partitions:
            future = self._manager.logs.futures.get(partition.topic_partition)
            if future is not None and partition.log is not None:
                if partition.future_log is None:
                    partition.future_log = future
                    self._manager.logs.paused.add(partition.topic_partition)
                self._add(partition)

    def _add(self, partition: HostedPartition) -> None:
        tp, future = partition.topic_partition, partition.future_log
        present = self.state(tp)
        self._failed.pop(tp, None)
        if (
            self._is_closed
            or future is None
            or (present is not None and present.leader_epoch == partition.leader_epoch)
        ):
            return
        copier = self._copier(self._number(tp))
        copier.states.put(tp, first_state(future, partition.leader_epoch))
        copier.wake()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop copying; the copies stay attached to their partitions."""
        for tp in partitions:
            self._failed.pop(tp, None)
            running = self._running.get(self._number(tp))
            if running is not None:
                running.copier.states.remove(tp)

    def detach_lost(self, directory: str) -> None:
        """End the moves to a directory that has failed (R11.3 step 3)."""
        for partition in self._manager.online_partitions():
            if partition.future_log is not None and partition.future_log.directory == directory:
                self.abandon(partition, DIRECTORY_FAILED)

    def abandon(self, partition: HostedPartition, cause: Cause) -> None:
        """Stop copying a partition, if it is being copied, for good; the caller deletes the copy where it can."""
        future, current = partition.future_log, partition.log
        self.remove((partition.topic_partition,))
        partition.future_log = None
        if future is not None and current is not None:
            move = directory_move(current, future)
            _log.info(
                "Move of a replica to another log directory was abandoned",
                partition=str(partition.topic_partition),
                stays=move.from_directory,
                cause=cause.event,
            )
            self._manager.commit(ReplicaMoveAbandoned(move, cause))

    def mark_for_truncation(self, tp: TopicPartition, offset: Offset) -> None:
        """The current log of a partition was truncated to `offset`: so is the copy, before more is copied (R5.20)."""
        running = self._running.get(self._number(tp))
        state = None if running is None else running.copier.states.get(tp)
        if running is not None and state is not None:
            running.copier.states.put(tp, cut_state(state, offset))
            running.copier.wake()

    def stop_idle(self) -> None:
        """Stop the copiers without partitions (R2.14)."""
        for number, running in tuple(self._running.items()):
            if len(running.copier.states) == 0:
                self._running.pop(number).task.cancel()

    def close(self) -> None:
        """Stop all copiers; nothing can be added afterwards."""
        self._is_closed = True
        while self._running:
            self._running.popitem()[1].task.cancel()

    async def refresh_metrics(self) -> None:
        """Update the gauges that are counts, minima or maxima over all copiers."""
        reads: dict[LogDirCopier, int] = {}
        while True:
            await asyncio.sleep(_METRICS_REFRESH_S)
            copiers = [running.copier for running in self._running.values()]
            rates = (copier.reads - reads.get(copier, 0) for copier in copiers)
            self._min_rate.set(min(rates, default=0) / _METRICS_REFRESH_S)
            reads = {copier: copier.reads for copier in copiers}
            lags = (running.copier.states.max_lag for running in self._running.values())
            self._max_lag.set(max(lags, default=0))
            self._failed_count.set(len(self._failed))

    def _number(self, tp: TopicPartition) -> int:
        return (31 * crc32(tp.topic.encode()) + tp.partition) % self._threads

    def _copier(self, number: int) -> LogDirCopier:
        present = self._running.get(number)
        if present is not None:
            return present.copier
        name = f"ReplicaAlterLogDirsThread-{number}"
        copier = LogDirCopier(name, self._setup)
        self._running[number] = _Running(copier, self._tasks.start(self._guard(copier, name), name=name))
        return copier

    async def _guard(self, copier: LogDirCopier, name: str) -> None:
        """The root of a copier's task: an unexpected error stops this copier for a while, not the agent (R5.7)."""
        while True:
            try:
                await copier.run()
            except Exception:
                _log.exception("Copier between log directories failed", copier=name)
            self._dead_count.inc()
            try:
                await asyncio.sleep(max(self._manager.settings.replica_fetch_backoff_ms, 1) / 1000)
            finally:
                self._dead_count.dec()
