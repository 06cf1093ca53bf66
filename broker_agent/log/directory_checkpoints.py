"""The checkpoints of log directories: what is written of their logs besides the logs themselves.

Source: Kafka LogManager, ReplicaManager.checkpointHighWatermarks.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from functools import partial

import structlog

from broker_agent.log import checkpoints
from broker_agent.log.cut_markers import lowest_cuts, remove_cut_markers
from broker_agent.log.future_logs import FutureLogs
from broker_agent.log.known_damage import KnownDamage, encode_damaged_replicas
from broker_agent.log.log_directory import LogDirectory
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.recovery import UnloadableLog
from broker_agent.log.segments import LogDependencies
from cluster.model.broker import Offset
from cluster.model.errors import FullDirectoryError, LogOperationError, StorageError
from cluster.model.partition import TopicPartition

_log = structlog.stdlib.get_logger()


class CheckpointedLogs:
    """The tables of logs, current ones and copies, and the checkpoints of the directories that they are in."""

    def __init__(self, dependencies: LogDependencies, directories: dict[str, LogDirectory]) -> None:
        self._dependencies, self._directories = dependencies, directories
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._log_counts = dict.fromkeys(directories, 0)  # Logs per directory, those being created included.
        self.futures = FutureLogs(dependencies, directories, self._log_counts)
        self._unloadable: dict[TopicPartition, UnloadableLog] = {}
        self._cleaned: set[str] = set()  # Directories with a checkpoint of the cleaner.
        self.damage = KnownDamage()

    @property
    def live_directories(self) -> tuple[str, ...]:
        return tuple(path for path, directory in self._directories.items() if directory.failure is None)

    async def read_high_watermarks(self, directory: str) -> dict[TopicPartition, Offset]:
        """The `replication-offset-checkpoint` of a directory. Raises StorageError when unreadable (R9.7)."""
        disk, path = self._dependencies.disk, f"{directory}/{checkpoints.HIGH_WATERMARKS}"
        with self._directories[directory]:
            return await disk.run(partial(checkpoints.read_checkpoint, disk, path, checkpoints.decode_offsets))

    async def write_high_watermarks(
        self, directory: str, present: Callable[[], Mapping[TopicPartition, Offset]]
    ) -> None:
        """Rewrite the `replication-offset-checkpoint` of a directory. Raises StorageError.

        `present`: collects the high watermarks, after other checkpoints are written: a log may be truncated meanwhile.
        """
        with self._directories[directory]:
            async with self._directories[directory].checkpoint_writing:
                stored = self._stored(directory, "high_watermark")
                offsets = {**stored, **self._checkpointed_here(directory), **present()}
                await self._replace_high_watermarks(directory, offsets)

    def _checkpointed_here(self, directory: str) -> dict[TopicPartition, Offset]:
        """Find what the checkpoint has of the logs of a directory: some may not have a role yet, as the controller
        divides what is too large for one request.
        """
        known = self._directories[directory].high_watermarks
        return {tp: known[tp] for log in self._logs_in(directory) if (tp := log.topic_partition) in known}

    async def _replace_high_watermarks(self, directory: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Rewrite the file. Until it is written, either content may be what the next start finds."""
        known = self._directories[directory].high_watermarks
        known |= {tp: max(offset, known.get(tp, offset)) for tp, offset in offsets.items()}
        await self._replace(directory, checkpoints.HIGH_WATERMARKS, checkpoints.encode_offsets(offsets))
        self._directories[directory].high_watermarks = dict(offsets)

    async def write_recovery_points(self) -> None:
        """Rewrite the recovery-point checkpoints of all live directories (R9.1)."""
        await self._in_each_directory(self.write_recovery_points_of)

    async def write_log_start_offsets(self) -> None:
        """Rewrite the log-start checkpoints of all live directories (R9.1)."""
        await self._in_each_directory(self.write_log_starts_of)

    def _stored(self, directory: str, name: str) -> dict[TopicPartition, Offset]:
        """The entries of logs that could not be loaded, which a checkpoint keeps: they may be repaired."""
        kept = {tp: getattr(log.offsets, name) for tp, log in self._unloadable.items() if log.directory == directory}
        return {tp: offset for tp, offset in kept.items() if offset > 0}

    async def _in_each_directory(self, write: Callable[[str], Awaitable[None]]) -> None:
        for path in self.live_directories:
            with going_on():
                await write(path)

    async def _write_offsets(self, directory: str) -> None:
        await self.write_recovery_points_of(directory)
        await self.write_log_starts_of(directory)

    async def write_recovery_points_of(self, directory: str) -> None:
        """Rewrite the recovery-point checkpoint of one directory. Raises StorageError."""
        with self._directories[directory]:
            async with self._directories[directory].checkpoint_writing:
                markers = self._directories[directory].take_cut_markers()
                points = self._stored(directory, "recovery_point")
                points |= {log.topic_partition: log.recovery_point_to_checkpoint for log in self._logs_in(directory)}
                try:
                    await self._replace(directory, checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(points))
                    if markers:
                        await self._replace_cleaner_offsets(directory)
                        await self._replace_log_starts(directory)
                        await self._lower_high_watermarks(directory, lowest_cuts(markers))
                        await self._dependencies.disk.run(partial(remove_cut_markers, self._dependencies.disk, markers))
                except OSError:
                    self._directories[directory].cut_markers += markers
                    raise

    async def _lower_high_watermarks(self, directory: str, cuts: Mapping[str, Offset]) -> None:
        """Rewrite the high watermarks that are above a truncation. `cuts`: path of a log -> its lowest offset.

        One that has risen since stays: it may be checkpointed, and is not written again before it changes.
        """
        stored = await self.read_high_watermarks(directory)
        cut = [log for log in self._logs_in(directory) if log.path in cuts]
        present = {log.topic_partition: max(cuts[log.path], log.high_watermark_to_checkpoint) for log in cut}
        lowered = {tp: offset for tp, offset in present.items() if offset < stored.get(tp, Offset(0))}
        if lowered:
            await self._replace_high_watermarks(directory, {**stored, **lowered})

    async def write_log_starts_of(self, directory: str) -> None:
        """Rewrite the log-start checkpoint of one directory. Raises StorageError."""
        with self._directories[directory]:
            async with self._directories[directory].checkpoint_writing:
                await self._replace_log_starts(directory)

    async def _replace_log_starts(self, directory: str) -> None:
        starts = self._stored(directory, "log_start_offset")
        starts |= {
            log.topic_partition: start
            for log in self._logs_in(directory)
            if (start := log.log_start_to_checkpoint) is not None
        }
        await self._replace(directory, checkpoints.LOG_START_OFFSETS, checkpoints.encode_offsets(starts))

    async def correct_cleaner_offsets(self, directory: str) -> None:
        """Rewrite the `cleaner-offset-checkpoint` that was read, without what is of no log. Raises StorageError."""
        self._cleaned.add(directory)
        await self.write_cleaner_offsets_of(directory)

    async def write_cleaner_offsets_of(self, directory: str) -> None:
        """Rewrite the `cleaner-offset-checkpoint` of one directory. Raises StorageError."""
        with self._directories[directory]:
            async with self._directories[directory].checkpoint_writing:
                await self._replace_cleaner_offsets(directory)

    async def _replace_cleaner_offsets(self, directory: str) -> None:
        """Rewrite the file, unless no log of the directory was ever cleaned."""
        offsets = self._stored(directory, "first_dirty")
        offsets |= {log.topic_partition: at for log in self._logs_in(directory) if (at := log.first_dirty_offset) > 0}
        if offsets or directory in self._cleaned:
            await self._replace(directory, checkpoints.CLEANER_OFFSETS, checkpoints.encode_offsets(offsets))
            self._cleaned.add(directory)

    async def write_damaged_replicas(self) -> None:
        """Rewrite the `damaged-replica-checkpoint` of each directory where something has changed (R9.33)."""
        for path in [path for path in self.live_directories if path in self.damage.unsaved]:
            with going_on():
                await self.write_damage_of(path)

    async def write_damage_of(self, directory: str) -> None:
        """Rewrite the file of one directory. Raises StorageError."""
        with self._directories[directory]:
            async with self._directories[directory].checkpoint_writing:
                self.damage.unsaved.discard(directory)
                content = encode_damaged_replicas(self.damage.in_directory(directory))
                try:
                    await self._replace(directory, checkpoints.DAMAGED_REPLICAS, content)
                except OSError:
                    self.damage.unsaved.add(directory)
                    raise

    async def _forget_high_watermarks(self, path: str, deleted: Set[TopicPartition]) -> None:
        """Remove checkpointed high watermarks and journaled epochs: a new log of the partition must not get them after
        a crash (R9.9).
        """
        directory = self._directories[path]
        with directory:
            async with directory.checkpoint_writing:
                # Some may have been forgotten while this waited, and have a new log here since.
                owed = directory.to_forget & deleted
                await self._dependencies.disk.run(partial(directory.epoch_journal.bury, owed))
                kept = await self.read_high_watermarks(path)
                stale = kept.keys() & owed
                for topic_partition in stale:
                    del kept[topic_partition]
                if stale:
                    await self._replace_high_watermarks(path, kept)
                directory.to_forget -= owed

    def _logs_in(self, directory: str) -> list[PartitionLog]:
        """The current logs and the copies in a directory; it has one of a partition at most."""
        return [log for log in (*self._logs.values(), *self.futures.all.values()) if log.directory == directory]

    async def _replace(self, directory: str, name: str, content: bytes) -> None:
        disk = self._dependencies.disk
        await disk.run(lambda: checkpoints.write_atomically(disk, directory, name, content))

    async def _forget_deleted(self, path: str) -> None:
        """Rewrite the checkpoints of a directory without the partitions that were deleted from it: a new log of one
        must not get their offsets. Raises StorageError; then it is owed.
        """
        deleted = frozenset(self._directories[path].to_forget)
        await self._write_offsets(path)
        await self.write_cleaner_offsets_of(path)
        await self._forget_high_watermarks(path, deleted)


@contextmanager
def going_on() -> Iterator[None]:
    """Periodic work on one log or directory: its failure does not end the work on the others."""
    try:
        yield
    except FullDirectoryError as error:
        # That it is full was said once.
        _log.debug("Periodic work waits for room in a log directory", error=str(error))
    except LogOperationError as error:
        _log.warning("Periodic work on a log directory failed; it is tried again at its next turn", error=str(error))
    except StorageError:
        return  # The directory failed, and reported it.
