"""All logs of one agent in its log directories: creation, deletion, retention, shutdown, return.

Source: Kafka LogManager; KIP-112 for the failure of single directories.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import structlog

from broker_agent.log import checkpoints
from broker_agent.log.config import LogConfig
from broker_agent.log.creation import create_in
from broker_agent.log.directory_checkpoints import CheckpointedLogs, going_on
from broker_agent.log.directory_names import deleted_name, path_in
from broker_agent.log.disk import Disk
from broker_agent.log.disk_errors import is_want_of_room
from broker_agent.log.future_logs import copy_takes_place
from broker_agent.log.log_directory import LogDirectory, OnFailure
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.recovery import UnloadableLog
from broker_agent.log.segments import LogDependencies
from broker_agent.log_damage import DamagedReplica
from cluster.metrics.registry import Samples
from cluster.model.broker import BrokerEpoch, TopicId
from cluster.model.errors import (
    ClusterError,
    ErrorCode,
    LogAppendError,
    LogOperationError,
    StorageError,
)
from cluster.model.partition import TopicPartition

_LOGS_BETWEEN_YIELDS: Final = 64
_FLUSHES_AT_ONCE: Final = 16
"""Limit of concurrent flushes: after an election thousands of logs may have to write a new epoch."""
_CLOSED_AT_ONCE: Final = 64
"""Limit of logs being closed: each holds a descriptor while it is flushed."""

Reopen = Callable[[str, Mapping[str, LogConfig], str], Awaitable["LogDirectories"]]
"""Takes the path, the configs of topics, and why what was not flushed may be gone, empty if it cannot. Raises
StartupError as `open_log_directories` does, and LogDirectoriesError if the directory cannot be used.
"""

_READINGS: Final[Mapping[str, Callable[[PartitionLog], int]]] = {
    "NumLogSegments": lambda log: len(log.segments),
    "LogStartOffset": lambda log: log.log_start_offset,
    "LogEndOffset": lambda log: log.log_end_offset,
    "Size": lambda log: log.segments.size,
}
"""The metrics of single logs; read by the scraper's thread."""
_log = structlog.stdlib.get_logger()


class LogDirectories(CheckpointedLogs):
    """All logs of one agent; Kafka's LogManager. Created and filled by `opening.open_log_directories`.

    `is_staged`: the logs of a directory that is brought back, until others `adopt` them. `min_free_bytes`: the setting.
    """

    def __init__(
        self,
        dependencies: LogDependencies,
        paths: Sequence[str],
        on_failure: OnFailure,
        *,
        producer_expiration_ms: int,
        min_free_bytes: int | None = None,
        is_staged: bool = False,
    ) -> None:
        directories = {
            path: LogDirectory(dependencies.disk, path, self._directory_failed, min_free_bytes=min_free_bytes)
            for path in paths
        }
        super().__init__(dependencies, directories)
        self._on_failure, self._producer_expiration_ms = on_failure, producer_expiration_ms
        self.on_doubt: Callable[[str], None] = lambda _path: None
        """Called with a directory of which the room is to be measured."""
        for directory in self._directories.values():
            directory.on_doubt = partial(self._on_doubt, directory.path)
        self.reopen: Reopen
        """Loads a directory that has failed while the process ran, to be adopted."""
        self.unacceptable_names: dict[str, tuple[str, ...]] = {}
        """Log directory -> names of its subdirectories that cannot be partitions; nothing in them is touched (BD-4)."""
        for name, number in () if is_staged else _READINGS.items():
            dependencies.metrics.expose(name, partial(self._readings, number))
        self._creations: dict[TopicPartition, asyncio.Event] = {}  # Set when done: nobody creates one twice.
        self.paused: set[TopicPartition] = set()
        """The partitions whose current logs are left as they are by retention, as they are being copied (R11.8)."""
        self.newly_damaged: list[DamagedReplica] = []
        """What was found missing when the directories were opened (R9.22)."""

    def _readings(self, number: Callable[[PartitionLog], int]) -> Samples:
        for tp, log in [*self._logs.items()]:
            yield {"topic": tp.topic, "partition": str(tp.partition)}, number(log)
        for tp, log in [*self.futures.all.items()]:
            yield {"topic": tp.topic, "partition": str(tp.partition), "is_future": "true"}, number(log)

    @property
    def directories(self) -> Mapping[str, LogDirectory]:
        """The configured directories, including failed ones."""
        return self._directories

    @property
    def disk(self) -> Disk:
        return self._dependencies.disk

    @property
    def failures(self) -> Mapping[str, OSError]:
        """The failed directories, each with its first error."""
        return {path: d.failure for path, d in self._directories.items() if d.failure is not None}

    @property
    def wait_for_room(self) -> tuple[str, ...]:
        """The directories that are out of service only because they had no room: they return when they have."""
        return tuple(path for path, failure in self.failures.items() if is_want_of_room(failure))

    def _on_doubt(self, path: str) -> None:
        self.on_doubt(path)

    @property
    def unloadable(self) -> Mapping[TopicPartition, str]:
        """The reasons why logs of live directories could not be loaded; they are offline until the process ends
        (R9.22).
        """
        return {topic_partition: log.why for topic_partition, log in self._unloadable.items()}

    def unloadable_in(self, directory: str) -> int:
        """The number of logs in a directory that could not be loaded."""
        return sum(log.directory == directory for log in self._unloadable.values())

    @property
    def damaged_replicas(self) -> Sequence[DamagedReplica]:
        """The replicas that are known to lack records, also by an earlier process (R9.33), or that may (D-119)."""
        return self.damage.all

    def damage_of(self, topic_partition: TopicPartition) -> Sequence[DamagedReplica]:
        """The damaged replicas of one partition; several if it is damaged in several places."""
        return self.damage.of(topic_partition)

    async def space(self, directory: str) -> tuple[int, int]:
        """The total and usable bytes of the directory's file system; -1 where unknown. Raises StorageError."""
        with self._directories[directory]:
            return await self._dependencies.disk.run(partial(self._dependencies.disk.space, directory))

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(topic_partition)

    def all_logs(self) -> Mapping[TopicPartition, PartitionLog]:
        return MappingProxyType(self._logs)

    def add_loaded(self, log: PartitionLog) -> PartitionLog | None:
        """Add a log loaded at startup; returns an already known log of the same partition, if there is one."""
        present = self._logs.setdefault(log.topic_partition, log)
        self._log_counts[log.directory] += 1
        if log.first_dirty_offset > 0:
            self._cleaned.add(log.directory)
        return None if present is log else present

    async def end_swap(self, copy: PartitionLog, current: PartitionLog) -> PartitionLog:
        """Complete, or take back, a swap in which an earlier process ended, of which there are two loaded logs; returns
        the log that is kept (R11.13). Raises StorageError.
        """
        topic_partition = copy.topic_partition
        if copy_takes_place(copy, current):
            # Before the mark goes: without it two directories of one partition keep the broker from starting.
            await self.keep_one(copy, current)
            return copy
        self._logs[topic_partition] = current
        self._log_counts[copy.directory] -= 1
        await self.futures.put_back(copy)
        return current

    async def keep_one(self, kept: PartitionLog, other: PartitionLog) -> None:
        """Delete one of two loaded logs of a partition, durably. Raises StorageError."""
        topic_partition = kept.topic_partition
        self._logs[topic_partition] = other
        await self._delete(other)
        self._logs[topic_partition] = kept
        self._directories[other.directory].to_forget.add(topic_partition)
        with self._directories[other.directory]:
            sync = partial(self._dependencies.disk.sync_directory, other.directory)
            await self._dependencies.disk.run(sync)

    def has(self, topic_partition: TopicPartition) -> bool:
        """Whether a live directory has a log of the partition, be it one that cannot be loaded."""
        return topic_partition in self._logs or topic_partition in self._unloadable

    def add_unloadable(self, topic_partition: TopicPartition, log: UnloadableLog) -> None:
        self._unloadable[topic_partition] = log

    def add_damaged(self, replica: DamagedReplica) -> None:
        self.damage.add(replica)

    def forget_damage(self, replica: DamagedReplica) -> None:
        """Remove a damaged replica that has been repaired."""
        self.damage.remove(replica)

    # Creating and deleting

    async def get_or_create(
        self, topic_partition: TopicPartition, *, topic_id: TopicId | None, is_new: bool, config: LogConfig
    ) -> PartitionLog:
        """The log of a partition; a new one has high watermark 0. Disk I/O in a thread (R11.6).

        Raises StorageError; LogAppendError(INCONSISTENT_TOPIC_ID) if the existing one has another id.
        """
        while topic_partition in self._creations:
            await self._creations[topic_partition].wait()
        if topic_partition in self._unloadable:
            raise self._unloadable[topic_partition].as_error()
        present = self._logs.get(topic_partition)
        if present is not None:
            if topic_id is not None and present.topic_id not in (None, topic_id):
                why = f"the log of {topic_partition} bears topic id {present.topic_id}, not {topic_id}"
                raise LogAppendError(ErrorCode.INCONSISTENT_TOPIC_ID, why)
            if topic_id is not None and present.topic_id is None:
                present.set_topic_id(topic_id)
            return present
        failed = [path for path, directory in self._directories.items() if directory.failure is not None]
        if failed and not is_new:
            raise StorageError(failed[0], f"failed, and may hold the log of {topic_partition}")
        return await self._create(topic_partition, topic_id, config)

    async def _create(
        self, topic_partition: TopicPartition, topic_id: TopicId | None, config: LogConfig
    ) -> PartitionLog:
        """Create in a live directory, first the preferred one, then that with the fewest logs; a failing one is
        reported, the next tried.

        Raises LogAppendError for a name that is not acceptable, before anything is created, and LogOperationError after
        the first attempt, if the reason is not the directory's.
        """
        path_in("", topic_partition)
        done = self._creations[topic_partition] = asyncio.Event()
        try:
            if self.futures.get(topic_partition) is not None:
                # A copy of a log that is gone, as with a disk that was replaced: it is of another history.
                await self.delete_future(topic_partition)
            while candidates := self.live_directories:
                preferred = self.futures.preferred.get(topic_partition)
                path = preferred if preferred in candidates else min(candidates, key=self._attraction)
                self._log_counts[path] += 1
                try:
                    log = await self._create_in(self._directories[path], topic_partition, topic_id, config)
                except LogOperationError:
                    self._log_counts[path] -= 1
                    raise
                except StorageError:
                    continue  # It is failed now; its count is of no interest any more.
                self._logs[topic_partition] = log
                self.futures.preferred.pop(topic_partition, None)
                return log
        finally:
            del self._creations[topic_partition]
            done.set()
        raise StorageError(",".join(self._directories), f"no live directory for {topic_partition}")

    def _attraction(self, path: str) -> tuple[bool, int]:
        """The number by which directories are chosen for a new log, the least first: those with room for records."""
        return self._directories[path].shortage is not None, self._log_counts[path]

    async def _create_in(
        self, directory: LogDirectory, topic_partition: TopicPartition, topic_id: TopicId | None, config: LogConfig
    ) -> PartitionLog:
        path = path_in(directory.path, topic_partition)
        if topic_partition in directory.to_forget:
            await self._forget_deleted(directory.path)
        return await create_in(
            self._dependencies, directory, path, topic_partition=topic_partition, config=config, topic_id=topic_id
        )

    async def delete(self, topic_partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Exception]:
        """Rename to `-delete` at once, copies first, rewrite checkpoints, delete the files later (R4.3 step 4, R10.16).

        Returns the failures; partitions without a log are not failures.
        """
        failures: dict[TopicPartition, Exception] = {}
        # Also of those without a log, of which the directory may be what was missing.
        wanted = set(topic_partitions) - self._unloadable.keys()
        self.damage.remove_where(lambda replica: replica.topic_partition in wanted)
        for topic_partition in topic_partitions:
            if topic_partition in self._unloadable:
                failures[topic_partition] = self._unloadable[topic_partition].as_error()
                continue
            future, log = self.futures.get(topic_partition), self._logs.get(topic_partition)
            try:
                await self.futures.delete(topic_partition)
                if log is not None:
                    await self._delete(log)
            except ClusterError as error:
                failures[topic_partition] = error
                continue
            for gone in (log, future):
                if gone is not None:
                    self._directories[gone.directory].to_forget.add(topic_partition)
        for path, directory in self._directories.items():
            deleted = wanted & directory.to_forget
            try:
                if deleted:
                    await self._forget_deleted(path)
            except StorageError as error:
                failures.update(dict.fromkeys(deleted, error))
        await self.write_damaged_replicas()
        return failures

    async def _delete(self, log: PartitionLog) -> None:
        topic_partition = log.topic_partition
        renamed = await log.rename_away(deleted_name(topic_partition, self._unique()))
        del self._logs[topic_partition]
        self.paused.discard(topic_partition)
        self._log_counts[log.directory] -= 1
        self._directories[log.directory].remove_later([renamed], log.config.file_delete_delay_ms)

    # Moving to another log directory

    async def create_future(self, topic_partition: TopicPartition, path: str) -> PartitionLog:
        """Create an empty copy of the partition's log in another directory, and leave the log to the copying alone.

        Raises StorageError, also if any directory has failed (R11.6, R11.8).
        """
        for failed in self.failures:
            raise StorageError(failed, f"failed; the log of {topic_partition} is not moved")
        current = self._logs[topic_partition]
        first_dirty = current.first_dirty_offset
        if topic_partition in self._directories[path].to_forget:
            await self._forget_deleted(path)
        future = await self.futures.create(current, path)
        future.first_dirty_offset = first_dirty
        self.futures.preferred.pop(topic_partition, None)
        self.paused.add(topic_partition)
        return future

    async def delete_future(self, topic_partition: TopicPartition) -> None:
        """End a move: delete the copy. Raises StorageError, which leaves it there."""
        future = self.futures.get(topic_partition)
        await self.futures.delete(topic_partition)
        self.paused.discard(topic_partition)
        if future is not None:
            self._directories[future.directory].to_forget.add(topic_partition)
            with going_on():
                await self._forget_deleted(future.directory)

    async def prepare_swap(self, future: PartitionLog) -> None:
        """Flush a copy that has caught up, note its high watermark for the next start, and mark it for the swap.

        Raises StorageError.
        """
        await self.futures.mark(future)
        path, topic_partition = future.directory, future.topic_partition
        with self._directories[path]:
            async with self._directories[path].checkpoint_writing:
                offsets = await self.read_high_watermarks(path)
                # A partition that was deleted meanwhile must not get one (R9.9).
                if self.futures.get(topic_partition) is future:
                    offsets[topic_partition] = future.high_watermark_to_checkpoint
                    await self._replace_high_watermarks(path, offsets)

    def replace_current(self, future: PartitionLog) -> None:
        """Let a copy that was put in its place be the current log, in one step with its users (R11.12)."""
        topic_partition = future.topic_partition
        current = self._logs[topic_partition]
        assert self.futures.remove(topic_partition) is future, f"the copy of {topic_partition} is gone"
        self._logs[topic_partition] = future
        self._log_counts[future.directory] += 1
        self._log_counts[current.directory] -= 1
        self.paused.discard(topic_partition)
        former = self._directories[current.directory]
        former.remove_later([current.path], current.config.file_delete_delay_ms)
        former.to_forget.add(topic_partition)
        current.abandon()
        self.damage.moved(topic_partition, future.directory)

    async def finish_swap(self, log: PartitionLog, former: str) -> None:
        """Rewrite the checkpoints of both directories and delete the marker. `former`: where the log was before."""
        with going_on():
            await self._write_offsets(log.directory)
        with going_on():
            await self.write_cleaner_offsets_of(log.directory)
        with going_on():
            await self._forget_deleted(former)
        with going_on():
            await self.futures.unmark(log)
        await self.write_damaged_replicas()

    # Periodic work

    async def flush_due(self) -> None:
        """Fsync the logs for which flush.ms, flush.messages or a roll requires it (R10.15); called periodically.

        Rewrites the recovery points of directories in which a log was truncated (R10.13), and what names deleted logs,
        and deletes files and directories whose delay is over.
        """
        now_s = asyncio.get_running_loop().time()
        due = [log for path in self.live_directories for log in self._directories[path].take_due(now_s)]
        for start in range(0, len(due), _FLUSHES_AT_ONCE):
            flushes = (log.flush() for log in due[start : start + _FLUSHES_AT_ONCE])
            for result in await asyncio.gather(*flushes, return_exceptions=True):
                with going_on():
                    if isinstance(result, BaseException):
                        raise result
        for path in [path for path in self.live_directories if self._directories[path].cut_markers]:
            with going_on():
                await self._write_offsets(path)
        for path in [path for path in self.live_directories if self._directories[path].to_forget]:
            with going_on():
                await self._forget_deleted(path)
        await self.remove_deleted()

    async def enforce_retention(self, now_ms: int) -> None:
        """Delete old segments, and files and directories whose delete delay is over (R10.17, R10.18)."""
        for number, log in enumerate([*self._logs.values()]):
            if number % _LOGS_BETWEEN_YIELDS == 0:
                await asyncio.sleep(0)
            if log.topic_partition in self.paused:
                continue
            with going_on():
                log.expire_producers(now_ms, self._producer_expiration_ms)
                log.enforce_retention(now_ms)
        await self.remove_deleted()

    async def remove_deleted(self) -> None:
        """Delete the files and directories whose `file.delete.delay.ms` is over."""
        for path in self.live_directories:
            with going_on():
                await self._directories[path].remove_due()

    # Shutdown

    async def close(self, broker_epoch: BrokerEpoch) -> None:
        """Shut down every live directory cleanly (R9.21); release the lock files."""
        for path in self.live_directories:
            directory = self._directories[path]
            with going_on(), directory:
                await self._close_directory(path, broker_epoch)
            directory.unlock()
        self._logs.clear()
        self.futures.clear()
        self._dependencies.disk.close()

    async def _close_directory(self, path: str, broker_epoch: BrokerEpoch) -> None:
        """Close all logs; the clean-shutdown marker is last, if all were loaded and closed without an error."""
        waiting = self._logs_in(path)
        failures: list[Exception] = []

        async def close_until_done() -> None:
            while waiting:
                try:
                    await waiting.pop().close()
                except Exception as error:
                    failures.append(error)

        await asyncio.gather(*(close_until_done() for _ in range(_CLOSED_AT_ONCE)))
        await self._write_offsets(path)
        await self.write_cleaner_offsets_of(path)
        if path in self.damage.unsaved:
            await self.write_damage_of(path)
        await self._dependencies.disk.run(self._directories[path].epoch_journal.tidy)
        if not failures and all(log.directory != path for log in self._unloadable.values()):
            await self._replace(path, checkpoints.CLEAN_MARKER, checkpoints.encode_clean_marker(broker_epoch))

    # Bringing a directory back

    async def adopt(self, staged: "LogDirectories") -> list[PartitionLog]:
        """Take over a directory that has failed here, with what was loaded from it meanwhile; returns the logs that are
        not taken over and deleted: a replica of the partition was created elsewhere since, and is the one that the
        cluster knows.
        """
        ((path, directory),) = staged.directories.items()
        assert self._directories[path].failure is not None, f"{path} is in service"
        self._directories[path] = directory
        directory.report_to(self._directory_failed)
        directory.on_doubt = partial(self._on_doubt, path)
        self._log_counts[path] = 0
        superseded = [log for log in staged.all_logs().values() if self.has(log.topic_partition)]
        superseded += [log for log in staged.futures.all.values() if not self._wants_copy(log, staged)]
        staged.damage.remove_where(lambda replica: self.has(replica.topic_partition))
        for log in staged.all_logs().values():
            if log not in superseded:
                self.add_loaded(log)
        for log in staged.futures.all.values():
            if log not in superseded:
                self.futures.add_loaded(log)
        for topic_partition, unloadable in staged._unloadable.items():
            if not self.has(topic_partition):
                self._unloadable[topic_partition] = unloadable
        for replica in staged.damaged_replicas:
            self.damage.add(replica)
        self.unacceptable_names |= staged.unacceptable_names
        self._cleaned |= staged._cleaned
        for log in superseded:
            with going_on():
                renamed = await log.rename_away(deleted_name(log.topic_partition, self._unique()))
                directory.remove_later([renamed], log.config.file_delete_delay_ms)
        directory.to_forget.update(log.topic_partition for log in superseded)
        if superseded:
            with going_on():
                await self._forget_deleted(path)
        await self.write_damaged_replicas()
        return superseded

    def _wants_copy(self, future: PartitionLog, staged: "LogDirectories") -> bool:
        """Whether a copy in a directory that returns is of use: while the directory was away the move had ended."""
        tp = future.topic_partition
        return not self.has(tp) and self.futures.get(tp) is None and staged.get(tp) is None

    def _unique(self) -> str:
        return f"{self._dependencies.random.getrandbits(128):032x}"

    def _directory_failed(self, path: str, error: OSError) -> None:
        """Drop the logs of a failed directory and notify the agent."""
        for log in [log for log in self._logs.values() if log.directory == path]:
            del self._logs[log.topic_partition]
            log.abandon()
        self.paused.difference_update(self.futures.directory_failed(path))
        for topic_partition in [tp for tp, log in self._unloadable.items() if log.directory == path]:
            del self._unloadable[topic_partition]
        self.damage.directory_failed(path)
        self._on_failure(path, error)
