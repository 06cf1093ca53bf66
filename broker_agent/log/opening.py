"""Startup: locks and checks the log directories, then loads their logs, several at a time.

When this is done, everything that a broker needs of its disks has been read, and each directory has been written to.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import structlog
from msgspec import Struct
from msgspec.structs import replace

from broker_agent.decisions.disk_room import DiskRoom
from broker_agent.log import checkpoints
from broker_agent.log.checkpoints import MalformedCheckpointError, MetaProperties
from broker_agent.log.config import LogConfig
from broker_agent.log.directory_names import DirectoryKind, parse_directory_name
from broker_agent.log.disk import Disk
from broker_agent.log.disk_errors import describe, is_error_of_disk, is_want_of_room
from broker_agent.log.epoch_journal import EPOCH_JOURNAL, NOT_JOURNALED, JournaledEpochs
from broker_agent.log.future_logs import IN_TWO_PLACES
from broker_agent.log.known_damage import decode_damaged_replicas
from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.log_directory import LogDirectory, OnFailure
from broker_agent.log.ownership import identify, take_possession, wait_for_room
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.recovery import CheckpointedOffsets, LoadedLog, UnloadableLog, load_log
from broker_agent.log.segments import LogDependencies
from broker_agent.log.shutdowns import LastShutdown, is_new_to_klamm, store_boot_id, take_last_shutdown
from broker_agent.log_damage import MACHINE_RESTARTED, DamagedReplica, LogDamage, in_doubt
from cluster.metrics.registry import Gauge
from cluster.model.bounds import shortened
from cluster.model.broker import Offset, TopicId
from cluster.model.errors import (
    FullDirectoryError,
    LogDirectoriesError,
    LogOperationError,
    StartupError,
    StorageError,
    ZooKeeperError,
)
from cluster.model.partition import TopicPartition
from state_log.writer import STATE_CHANGE_FOLDER

_NAMED_IN_LOG: Final = 10
_LOADED_AT_ONCE: Final = 32
"""Number of logs that a thread loads in one go, unless they are recovered: a hop to it costs as much as a small log."""
_log = structlog.stdlib.get_logger()


async def _read_no_partitions() -> Mapping[TopicPartition, TopicId | None]:
    return {}


class LoadOptions(Struct, frozen=True, kw_only=True):
    """How logs are loaded. `topic_configs` overrides `default_config` per topic; times in ms.

    `boot_id`: which start of the machine this is, empty where that is not known. `min_free_bytes`: the setting, None if
    it is not set. `read_in_sync`: reads for which partitions the broker is in sync, with their topic ids; it may raise
    ZooKeeperError.
    """

    default_config: LogConfig = LogConfig()
    topic_configs: Mapping[str, LogConfig] = {}
    recovery_threads: int = 1
    producer_expiration_ms: int = 86_400_000
    boot_id: str = ""
    min_free_bytes: int | None = None
    read_in_sync: Callable[[], Awaitable[Mapping[TopicPartition, TopicId | None]]] = _read_no_partitions


async def open_log_directories(
    dependencies: LogDependencies,
    paths: Sequence[str],
    owner: MetaProperties,
    on_failure: OnFailure,
    *,
    options: LoadOptions = LoadOptions(),
) -> LogDirectories:
    """Lock, check and load every directory.

    An unusable directory is reported through `on_failure` and left out, and so is one that has not even the room to be
    opened; a log that cannot be loaded is offline; a subdirectory that no partition can have made is left alone and
    named in `unacceptable_names`. Raises StartupError if a directory belongs to another broker, cluster or process, if
    two hold the same partition, or after another error that is not the disk's: of a directory read in part, new logs
    would replace those that were not read; and LogDirectoriesError if none is usable, or will be when it has room.

    A directory without an identity (`meta.properties`) may be an empty disk in the place of another one. The partitions
    for which the broker is in sync, and of which no directory has a log, are damaged then; it gets its identity once
    that is written down. Raises StartupError if they cannot be read.
    """
    paths = [path.rstrip("/") or "/" for path in paths]
    if len(set(paths)) < len(paths):
        raise StartupError(f"log.dirs names a directory twice: {', '.join(paths)}")
    logs = LogDirectories(
        dependencies,
        paths,
        on_failure,
        producer_expiration_ms=options.producer_expiration_ms,
        min_free_bytes=options.min_free_bytes,
    )

    async def reopen(path: str, topic_configs: Mapping[str, LogConfig], lost_writes: str) -> LogDirectories:
        current = replace(options, topic_configs=topic_configs)
        return await _open_again(dependencies, path, owner, current, lost_writes=lost_writes, present=logs)

    logs.reopen = reopen
    await _open_all(dependencies, logs, owner, options)
    if not logs.live_directories and not logs.wait_for_room:
        reasons = "; ".join(f"{path}: {failure}" for path, failure in logs.failures.items())
        raise LogDirectoriesError(f"no log directory can be used: {reasons}")
    return logs


async def _open_again(
    dependencies: LogDependencies,
    path: str,
    owner: MetaProperties,
    options: LoadOptions,
    *,
    lost_writes: str,
    present: LogDirectories,
) -> LogDirectories:
    """See `Reopen`. `present`: the directories that are in service."""
    logs = LogDirectories(
        dependencies,
        [path],
        lambda _path, _error: None,
        producer_expiration_ms=options.producer_expiration_ms,
        min_free_bytes=options.min_free_bytes,
        is_staged=True,
    )
    await _open_all(dependencies, logs, owner, options, lost_writes=lost_writes, present=present)
    for failed, error in logs.failures.items():
        raise LogDirectoriesError(f"log directory {failed} cannot be used: {error}")
    return logs


async def _open_all(
    dependencies: LogDependencies,
    logs: LogDirectories,
    owner: MetaProperties,
    options: LoadOptions,
    *,
    lost_writes: str = "",
    present: LogDirectories | None = None,
) -> None:
    try:
        for directory in logs.directories.values():
            await take_possession(dependencies.disk, directory, owner)
        others = () if present is None else [d for d in present.directories.values() if d.path not in logs.directories]
        all_there = all(d.failure is None for d in (*others, *logs.directories.values()))
        loader = _Loader(dependencies, logs, options, lost_writes)
        live = [directory for directory in logs.directories.values() if directory.failure is None]
        for result in await asyncio.gather(*map(loader.load, live), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        loader.report_missing()
        opened = [*logs.directories.values(), *others]
        new = [directory for directory in opened if directory.is_new]
        # A broker without any directory of its own is a new one, as for Kafka, whatever an ISR says of its id.
        if all_there and len(new) < len(opened) and (new or present is not None):
            await loader.report_lost(present)
        await loader.remove_marks()
        await logs.write_damaged_replicas()
        await loader.remember_boot()
        if all_there and not logs.damage.unsaved:
            for directory in new:
                await identify(dependencies.disk, directory, owner)
    except BaseException as error:
        for directory in logs.directories.values():
            directory.unlock()
        if isinstance(error, LogOperationError):
            raise StartupError(str(error)) from error
        raise


class _Found(Struct, frozen=True):
    """The log directory's checkpoints, journal and logs, before any log is opened.

    `futures`: the paths of the copies.
    """

    partitions: list[TopicPartition]
    futures: dict[TopicPartition, str]
    offsets: dict[TopicPartition, CheckpointedOffsets]
    journaled: Mapping[TopicPartition, JournaledEpochs]
    last_shutdown: LastShutdown
    is_new_to_klamm: bool


class _Loader:
    """Loads the logs of all directories."""

    def __init__(
        self, dependencies: LogDependencies, logs: LogDirectories, options: LoadOptions, lost_writes: str
    ) -> None:
        self._dependencies, self._logs, self._options = dependencies, logs, options
        self._lost_writes = lost_writes
        self._without_log: list[tuple[TopicPartition, str, Offset]] = []
        self._marked: dict[TopicPartition, PartitionLog] = {}
        """The logs that were about to take the place of others when the last process ended, or just had."""
        self._in_doubt: dict[str, Sequence[TopicPartition]] = {}
        """Log directory whose machine was restarted without a clean shutdown -> its partitions."""

    async def load(self, directory: LogDirectory) -> None:
        """Load the logs of one directory; an I/O error outside of a log fails the directory, not the process."""
        disk, path = self._dependencies.disk, directory.path
        try:
            with directory:
                directory.take_measure(DiskRoom(*await disk.run(partial(disk.space, path))))
                names = await disk.run(partial(_sort_names, disk, path))
                self._report_unacceptable(path, names.unacceptable)
                directory.remove_later(names.removable, self._options.default_config.file_delete_delay_ms)
                offsets = await disk.run(partial(_read_offsets, disk, path))
                directory.high_watermarks = {tp: known.high_watermark for tp, known in offsets.items()}
                journal = await disk.run(partial(disk.read_file, f"{path}/{EPOCH_JOURNAL}"))
                journaled = dict(directory.epoch_journal.open(journal))
                await self._bury_strays(directory, journaled, names.current)
                known_damage = await disk.run(partial(_read_damage, disk, path))
                # Last: whatever fails before it does not cost the next start a recovery.
                is_new = await disk.run(partial(is_new_to_klamm, disk, path))
                ended = await disk.run(partial(take_last_shutdown, disk, path, self._options.boot_id))
                gone = offsets.keys() - names.current - names.deleted - names.futures.keys()
                self._without_log += [(tp, path, offsets[tp].high_watermark) for tp in sorted(gone)]
                self._logs.damage.load(known_damage)
                found = _Found(sorted(names.current), names.futures, offsets, journaled, ended, is_new)
                await self._load_logs(directory, found)
                await self._load_futures(directory, found)
                await self._bury(directory, {tp for tp, line in journaled.items() if self._is_of_other_topic(tp, line)})
                self._logs.damage.remove_where(self._is_gone)
                if ended is LastShutdown.UNCLEAN or (self._lost_writes and ended is LastShutdown.KILLED):
                    self._doubt(path, found.partitions)
                # A directory that cannot be written to fails now, before the broker registers. Not the recovery points:
                # what was cut below them would be forgotten before it is reported.
                with suppress(FullDirectoryError):
                    await self._logs.write_log_starts_of(path)
                    if any(offsets[tp].first_dirty for tp in gone):
                        await self._logs.correct_cleaner_offsets(path)
        except FullDirectoryError as error:
            wait_for_room(directory, error)
        except LogOperationError:
            raise
        except StorageError:
            return

    async def _bury_strays(
        self, directory: LogDirectory, journaled: dict[TopicPartition, JournaledEpochs], present: Set[TopicPartition]
    ) -> None:
        """Remove from `journaled`, and void, what is of logs that are gone, by a deletion that was not completed or by
        hand: a new log of the partition must not get it.
        """
        strays = journaled.keys() - present
        for tp in strays:
            del journaled[tp]
        if not await self._bury(directory, strays):
            directory.to_forget |= strays

    async def _bury(self, directory: LogDirectory, topic_partitions: Set[TopicPartition]) -> bool:
        """Void what the journal says of partitions; returns whether there was room for that. Raises StorageError."""
        with suppress(FullDirectoryError), directory:
            await self._dependencies.disk.run(partial(directory.epoch_journal.bury, topic_partitions))
            return True
        return False

    def _is_of_other_topic(self, topic_partition: TopicPartition, line: JournaledEpochs) -> bool:
        """Whether a line is of an earlier topic, as after a deletion by a release that does not know the journal."""
        log = self._logs.get(topic_partition)
        return log is not None and line.topic_id not in (None, log.topic_id)

    def _is_gone(self, replica: DamagedReplica) -> bool:
        """Whether what a file says of damage is over: it is of an earlier topic, or the records were deleted."""
        log = self._logs.get(replica.topic_partition)
        if log is None or log.directory != replica.directory:
            return False
        is_other = replica.topic_id is not None and log.topic_id not in (None, replica.topic_id)
        return is_other or (log.log_start_offset >= replica.damage.to_offset and not replica.is_in_doubt)

    def _doubt(self, path: str, partitions: Sequence[TopicPartition]) -> None:
        """Doubt every replica of the directory that is not going to be named to the controller as damaged (D-119)."""
        self._in_doubt[path] = partitions
        why = self._lost_writes or MACHINE_RESTARTED
        for tp in partitions:
            if any(known.is_unanswered and not known.is_in_doubt for known in self._logs.damage_of(tp)):
                continue
            log = self._logs.get(tp)
            # One that cannot be loaded may be, under the same boot, the next time.
            topic_id, end = (None, Offset(0)) if log is None else (log.topic_id, log.log_end_offset)
            self._logs.add_damaged(in_doubt(tp, topic_id, path, end, why))
        if partitions:
            _log.warning(
                "Replicas may lack what was not flushed; others in sync lead before they do",
                why=why,
                directory=path,
                replicas=len(partitions),
            )

    async def remember_boot(self) -> None:
        """Store the boot id where the replicas in doubt are written down: from now on a start without a clean shutdown
        is that of a killed process.
        """
        disk = self._dependencies.disk
        for path in self._in_doubt.keys() - self._logs.damage.unsaved:
            directory = self._logs.directories[path]
            if directory.failure is None:
                await _store_boot_id(disk, directory, self._options.boot_id)

    def report_missing(self) -> None:
        """Report the replicas whose directories are gone although their high watermarks are checkpointed."""
        for topic_partition, directory, high_watermark in self._without_log:
            if high_watermark > 0 and not self._logs.has(topic_partition):
                why = f"{directory}/{topic_partition} is missing, its high watermark was {high_watermark}"
                damage = LogDamage(Offset(0), high_watermark, 0, why, is_end_known=False)
                self._report(DamagedReplica(topic_partition, None, directory, damage))

    async def report_lost(self, present: LogDirectories | None) -> None:
        """Report the partitions for which the broker is in sync, and of which no directory has a log. `present`: the
        directories that are in service already. Raises StartupError if ZooKeeper cannot be asked.
        """
        opened = [self._logs] if present is None else [self._logs, present]
        path = next(iter(self._logs.directories))
        new = ", ".join(d.path for logs in opened for d in logs.directories.values() if d.is_new)
        why = f"{new} was empty when it was opened" if new else f"it is not in {path}, which was away"
        try:
            in_sync = await self._options.read_in_sync()
        except ZooKeeperError as error:
            raise StartupError(f"the partitions that this broker is in sync for cannot be read: {error}") from error
        for tp in sorted(in_sync.keys()):
            if not any(logs.has(tp) or logs.damage_of(tp) for logs in opened):
                # How much there was nobody knows; it is said of the first record, which there was if there was any.
                damage = LogDamage(
                    Offset(0), Offset(1), 0, f"no log directory has a log of it; {why}", is_end_known=False
                )
                self._report(DamagedReplica(tp, in_sync[tp], path, damage))

    def _report_unacceptable(self, path: str, names: Sequence[str]) -> None:
        if names:
            self._logs.unacceptable_names[path] = tuple(names)
            _log.warning(
                "Left directories alone that cannot be partitions; move them out of the log directory",
                directory=path,
                count=len(names),
                first=[shortened(name) for name in names[:_NAMED_IN_LOG]],
            )

    async def _load_logs(self, directory: LogDirectory, found: _Found) -> None:
        waiting = list(reversed(found.partitions))
        left = self._dependencies.metrics.logs_to_recover(directory.path)
        left.set(len(waiting))
        at_once = _LOADED_AT_ONCE if found.last_shutdown is LastShutdown.CLEAN else 1

        async def load_until_done(thread: int) -> None:
            segments_left = self._dependencies.metrics.segments_to_recover(directory.path, thread)
            while waiting:
                some = [waiting.pop() for _ in range(min(at_once, len(waiting)))]
                await self._load_some(directory, some, found, segments_left)
                left.dec(len(some))

        threads = max(1, self._options.recovery_threads)
        results = await asyncio.gather(*map(load_until_done, range(threads)), return_exceptions=True)
        self._dependencies.metrics.recovered(directory.path, threads)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _load_some(
        self, directory: LogDirectory, some: Sequence[TopicPartition], found: _Found, segments_left: Gauge
    ) -> None:
        """Load these logs. Whatever is wrong with one of them, the others are served; but for a want of room, which is
        raised once all are in the table, where a failure of the directory closes them.
        """
        want_of_room: OSError | None = None
        loads = [self._load_of(f"{directory.path}/{tp}", tp, found, segments_left.set) for tp in some]
        for tp, loaded in zip(some, await self._dependencies.disk.run(partial(_outcomes, loads)), strict=True):
            if isinstance(loaded, LoadedLog):
                await self._add(self._log_of(directory, f"{directory.path}/{tp}", tp, loaded), loaded)
            elif isinstance(loaded, OSError) and is_want_of_room(loaded):
                want_of_room = loaded
            else:
                self._leave_out(directory, tp, found.offsets.get(tp, CheckpointedOffsets()), loaded)
        if want_of_room is not None:
            raise want_of_room

    async def _load_futures(self, directory: LogDirectory, found: _Found) -> None:
        """Load the copies; one that cannot be loaded, or is of no use, is deleted: it can be made again."""
        for topic_partition, path in sorted(found.futures.items()):
            if topic_partition in found.partitions:
                _log.warning("Deleted a copy that is beside its own log", path=path)
                directory.remove_later([path], 0)
                continue
            try:
                load = self._load_of(path, topic_partition, found, lambda _: None)
                loaded = await self._dependencies.disk.run(load)
            except Exception as error:
                if isinstance(error, OSError) and is_want_of_room(error):
                    raise
                # What the disk refuses is no fault of this program, and needs no traceback.
                is_of_disk = isinstance(error, OSError)
                _log.error(
                    "Copy of a log cannot be loaded; it is deleted", path=path, why=repr(error), exc_info=not is_of_disk
                )
                directory.remove_later([path], 0)
                continue
            log = self._log_of(directory, path, topic_partition, loaded)
            offsets = found.offsets.get(topic_partition, CheckpointedOffsets())
            directory.cut_markers.extend(loaded.cut_markers)
            log.set_high_watermark(offsets.high_watermark)
            present = self._logs.futures.add_loaded(log)
            if present is not None:
                raise StartupError(_in_two_places(present, log))

    def _load_of(
        self, path: str, topic_partition: TopicPartition, found: _Found, on_segments_left: Callable[[int], None]
    ) -> Callable[[], LoadedLog]:
        config = self._options.topic_configs.get(topic_partition.topic, self._options.default_config)
        return partial(
            load_log,
            self._dependencies,
            path,
            config,
            found.offsets.get(topic_partition, CheckpointedOffsets()),
            is_clean=found.last_shutdown is LastShutdown.CLEAN,
            lacks_no_ends=found.last_shutdown is not LastShutdown.UNCLEAN or found.is_new_to_klamm,
            journaled=found.journaled.get(topic_partition, NOT_JOURNALED),
            on_segments_left=on_segments_left,
        )

    def _log_of(
        self, directory: LogDirectory, path: str, topic_partition: TopicPartition, loaded: LoadedLog
    ) -> PartitionLog:
        config = self._options.topic_configs.get(topic_partition.topic, self._options.default_config)
        return PartitionLog(
            self._dependencies, directory, path, topic_partition=topic_partition, config=config, loaded=loaded
        )

    def _leave_out(
        self, directory: LogDirectory, topic_partition: TopicPartition, offsets: CheckpointedOffsets, error: Exception
    ) -> None:
        path = f"{directory.path}/{topic_partition}"
        what = describe(error) if isinstance(error, OSError) else repr(error)
        is_of_process = isinstance(error, OSError) and not is_error_of_disk(error)
        remedy = "then" if is_of_process else "repair it or move it away, and"
        why = f"{path} cannot be loaded: {what}; {remedy} restart the broker"
        is_expected = isinstance(error, OSError)
        _log.error("Log cannot be loaded; its replica is offline", path=path, why=what, exc_info=not is_expected)
        self._logs.add_unloadable(topic_partition, UnloadableLog(directory.path, why, offsets))

    async def _add(self, log: PartitionLog, loaded: LoadedLog) -> None:
        self._logs.directories[log.directory].cut_markers.extend(loaded.cut_markers)
        if loaded.is_marked:
            self._marked[log.topic_partition] = log
        present = self._logs.add_loaded(log)
        if present is not None:
            await self._keep_one(present, log)
        if loaded.damage is not None and self._logs.get(log.topic_partition) is log:
            self._report(DamagedReplica(log.topic_partition, loaded.topic_id, log.directory, loaded.damage))

    async def _keep_one(self, present: PartitionLog, log: PartitionLog) -> None:
        """Decide between two logs of a partition. Raises StartupError if both may be of use."""
        marked = self._marked.get(log.topic_partition)
        if marked is not None:
            kept = await self._logs.end_swap(marked, log if marked is present else present)
            _log.warning("Ended a move between log directories that a crash had interrupted", path=kept.path)
            return
        for kept, other in ((present, log), (log, present)):
            if other.was_never_used and other.topic_id in (None, kept.topic_id):
                # Its directory failed while the log was created, which was created in another one then.
                await self._logs.keep_one(kept, other)
                _log.warning("Deleted a log that was never used, beside another one", path=other.path, kept=kept.path)
                return
        raise StartupError(_in_two_places(present, log))

    async def remove_marks(self) -> None:
        """Delete the markers of swaps that are over."""
        for topic_partition, log in self._marked.items():
            if self._logs.get(topic_partition) is log:
                try:
                    await self._logs.futures.unmark(log)
                except LogOperationError:
                    raise
                except StorageError:
                    continue  # Its directory failed, and reported it.

    def _report(self, replica: DamagedReplica) -> None:
        _log.error("Replica is damaged", partition=str(replica.topic_partition), detail=replica.detail)
        self._logs.damage.add_found(replica)
        self._logs.newly_damaged.append(replica)


def _outcomes(loads: Sequence[Callable[[], LoadedLog]]) -> list[LoadedLog | Exception]:
    """Load each log, or find why it cannot be loaded."""
    outcomes: list[LoadedLog | Exception] = []
    for load in loads:
        try:
            outcomes.append(load())
        except Exception as error:
            outcomes.append(error)
    return outcomes


def _in_two_places(one: PartitionLog, other: PartitionLog) -> str:
    return IN_TWO_PLACES.format(one.topic_partition, one.path, other.path)


async def _store_boot_id(disk: Disk, directory: LogDirectory, boot_id: str) -> None:
    try:
        with directory:
            await disk.run(partial(store_boot_id, disk, directory.path, boot_id))
    except FullDirectoryError:
        return  # The next start finds the machine restarted once more.
    except LogOperationError:
        raise
    except StorageError:
        return


def _read_offsets(disk: Disk, path: str) -> dict[TopicPartition, CheckpointedOffsets]:
    """The offset checkpoints. Raises MalformedCheckpointError for that of the high watermarks."""
    points = _read_or_empty(disk, f"{path}/{checkpoints.RECOVERY_POINTS}")
    starts = _read_or_empty(disk, f"{path}/{checkpoints.LOG_START_OFFSETS}")
    file = f"{path}/{checkpoints.HIGH_WATERMARKS}"
    watermarks = checkpoints.read_checkpoint(disk, file, checkpoints.decode_offsets)
    dirty = _read_or_empty(disk, f"{path}/{checkpoints.CLEANER_OFFSETS}")
    files, zero = (points, starts, watermarks, dirty), Offset(0)
    known = points.keys() | starts.keys() | watermarks.keys()
    return {tp: CheckpointedOffsets(*(file.get(tp, zero) for file in files)) for tp in known}


def _read_or_empty(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """Read a checkpoint without which a log can be loaded; a malformed one counts as empty."""
    try:
        return checkpoints.read_checkpoint(disk, path, checkpoints.decode_offsets)
    except MalformedCheckpointError as error:
        _log.warning("Checkpoint counts as empty", why=str(error))
        return {}


def _read_damage(disk: Disk, path: str) -> list[DamagedReplica]:
    """The damaged replicas in the file of a directory; a malformed one counts as empty."""
    try:
        decode = partial(decode_damaged_replicas, directory=path)
        return checkpoints.read_checkpoint(disk, f"{path}/{checkpoints.DAMAGED_REPLICAS}", decode)
    except MalformedCheckpointError as error:
        _log.warning("Checkpoint counts as empty", why=str(error))
        return []


class _Names(NamedTuple):
    """The subdirectories of a log directory: partitions to serve, copies with their paths, partitions being deleted
    with their paths, and others.
    """

    current: set[TopicPartition]
    futures: dict[TopicPartition, str]
    deleted: set[TopicPartition]
    removable: list[str]
    unacceptable: list[str]


def _sort_names(disk: Disk, path: str) -> _Names:
    found = _Names(set(), {}, set(), [], [])
    for name in disk.list_directory(path):
        if name == STATE_CHANGE_FOLDER or not disk.is_directory(f"{path}/{name}"):
            continue
        parsed = parse_directory_name(name)
        if parsed is None:
            found.unacceptable.append(name)
        elif parsed.kind is DirectoryKind.CURRENT:
            found.current.add(parsed.topic_partition)
        elif parsed.kind is DirectoryKind.FUTURE:
            other = found.futures.setdefault(parsed.topic_partition, f"{path}/{name}")
            if other != f"{path}/{name}":
                raise StartupError(IN_TWO_PLACES.format(parsed.topic_partition, other, f"{path}/{name}"))
        elif parsed.kind is DirectoryKind.DELETED:
            found.deleted.add(parsed.topic_partition)
            found.removable.append(f"{path}/{name}")
    return found
