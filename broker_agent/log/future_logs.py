"""The copies of replicas that are being moved to another log directory: their files, and the order of the swap on disk.

A copy is in a directory with the suffix `-future` until it takes the place of the current log. Then it gets the plain
name first, and the other one the suffix `-delete`, each durably before the next step: at every moment there is a plain
directory. What a crash in between leaves is told apart by a marker in the directory of the copy. Source: Kafka
LogManager (futureLogs, replaceCurrentWithFutureLog); R11.13.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from broker_agent.log.creation import create_in
from broker_agent.log.directory_names import SWAP_MARKER, deleted_name, future_name, path_in
from broker_agent.log.log_directory import LogDirectory
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.segments import LogDependencies
from cluster.model.errors import StartupError, StorageError
from cluster.model.partition import TopicPartition

IN_TWO_PLACES: Final = "{} is in two places: {} and {}; move one of them away"


class FutureLogs:
    """The copies by partition. `preferred`: the directory that was asked for, until a log was created in it (R11.6).

    `log_counts`: of all log directories, current logs included; kept up to date here for the copies.
    """

    def __init__(
        self, dependencies: LogDependencies, directories: Mapping[str, LogDirectory], log_counts: dict[str, int]
    ) -> None:
        self._dependencies, self._directories, self._log_counts = dependencies, directories, log_counts
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.preferred: dict[TopicPartition, str] = {}

    @property
    def all(self) -> Mapping[TopicPartition, PartitionLog]:
        return MappingProxyType(self._logs)

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(topic_partition)

    def add_loaded(self, log: PartitionLog) -> PartitionLog | None:
        """Add a copy loaded at startup; returns an already known one of the same partition, if there is one."""
        present = self._logs.setdefault(log.topic_partition, log)
        self._log_counts[log.directory] += 1
        return None if present is log else present

    def remove(self, topic_partition: TopicPartition) -> PartitionLog:
        """Take a copy out of the table: it is the current log now, or is going to be deleted."""
        log = self._logs.pop(topic_partition)
        self._log_counts[log.directory] -= 1
        return log

    def clear(self) -> None:
        self._logs.clear()

    async def create(self, current: PartitionLog, path: str) -> PartitionLog:
        """Create an empty copy of a log in another log directory. Disk I/O in a thread.

        Raises StorageError, which has failed that directory unless it is a LogOperationError.
        """
        topic_partition, directory = current.topic_partition, self._directories[path]
        path_in(path, topic_partition)
        place = f"{path}/{future_name(topic_partition, self._unique())}"
        log = await create_in(
            *(self._dependencies, directory, place),
            topic_partition=topic_partition,
            config=current.config,
            topic_id=current.topic_id,
        )
        self._logs[topic_partition] = log
        self._log_counts[path] += 1
        return log

    async def delete(self, topic_partition: TopicPartition) -> None:
        """Rename a copy to `-delete` at once, and delete its files later; without a copy nothing. Raises StorageError,
        which leaves it there.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            return
        renamed = await log.rename_away(deleted_name(topic_partition, self._unique()))
        if self._logs.get(topic_partition) is log:
            self.remove(topic_partition)
        self._directories[log.directory].remove_later([renamed], log.config.file_delete_delay_ms)

    def directory_failed(self, path: str) -> list[TopicPartition]:
        """Drop the copies in a failed directory, and return of which partitions; their files stay as they are."""
        lost = [log for log in self._logs.values() if log.directory == path]
        for log in lost:
            self.remove(log.topic_partition)
            log.abandon()
        return [log.topic_partition for log in lost]

    # The swap

    async def mark(self, log: PartitionLog) -> None:
        """Flush a copy and mark that it is about to take the place of the current log. Raises StorageError."""
        await log.flush()
        await log.mark(SWAP_MARKER)

    async def put_in_place(self, log: PartitionLog, current: PartitionLog) -> None:
        """Give a marked copy, which has all batches of the current log, its plain name, and the current log that of a
        deleted one. Both stay in use; nothing may be appended to either meanwhile. Raises StorageError.

        After an error the current log may still be used, and the swap be tried again.
        """
        log.take_over(current)
        await log.flush()
        await log.write_producers()
        plain = str(log.topic_partition)
        await log.rename_to(plain)
        await current.rename_to(deleted_name(log.topic_partition, self._unique()), must_last=False)
        try:
            self._check(log)
        except StorageError:
            # The current log is served on: under a name with which the next start would delete it.
            await current.rename_to(plain)
            raise
        self._check(current)

    def _check(self, log: PartitionLog) -> None:
        """Raise StorageError if the log directory has failed meanwhile."""
        with self._directories[log.directory]:
            return

    async def put_back(self, log: PartitionLog) -> None:
        """Rename a copy that got the plain name, but did not take the place of the current log. Raises StorageError."""
        await log.rename_to(future_name(log.topic_partition, self._unique()))
        self.add_loaded(log)

    async def unmark(self, log: PartitionLog) -> None:
        """Delete the marker: there is only one directory of the partition. Raises StorageError."""
        disk = self._dependencies.disk
        with self._directories[log.directory]:
            await disk.run(partial(disk.remove_file, f"{log.path}/{SWAP_MARKER}"))

    def _unique(self) -> str:
        return f"{self._dependencies.random.getrandbits(128):032x}"


def copy_takes_place(copy: PartitionLog, current: PartitionLog) -> bool:
    """Whether a swap in which the process ended is completed: the copy has all that the current log has.

    A copy that lacks records, as unflushed ones after a power failure, is copied again. Raises StartupError if the copy
    ends behind the current log, which was truncated and written since: then the swap had failed before.
    """
    ends = [(-1 if log.latest_epoch is None else log.latest_epoch, log.log_end_offset) for log in (copy, current)]
    if ends[0] < ends[1] and copy.log_end_offset > current.log_end_offset:
        raise StartupError(IN_TWO_PLACES.format(copy.topic_partition, current.path, copy.path))
    return ends[0] >= ends[1] and copy.log_end_offset >= current.log_end_offset
