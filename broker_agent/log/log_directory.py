"""One log directory: whether it has failed or is full, its lock, and the files to be deleted from it.

Source: Kafka LogDirFailureChannel, LogManager; KIP-112; klamm for full directories.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from types import TracebackType
from typing import Final, Protocol

from broker_agent.decisions.disk_room import DiskRoom, has_room_to_clean, is_short, reserve_of, room_to_try
from broker_agent.log import checkpoints
from broker_agent.log.cut_markers import create_cut_marker
from broker_agent.log.disk import Disk
from broker_agent.log.disk_errors import describe, is_error_of_disk, is_want_of_room
from broker_agent.log.epoch_journal import EpochJournal
from broker_agent.log.grouped_work import GroupedWork
from broker_agent.log.recovery import LoadedLog
from cluster.model.broker import Offset
from cluster.model.errors import FullDirectoryError, LogOperationError, StartupError, StorageError
from cluster.model.partition import TopicPartition

OnFailure = Callable[[str, OSError], None]
MIN_FREE_BYTES: Final = "klamm.log.dir.min.free.bytes"


class FlushedLog(Protocol):
    """A log, as the check for due flushes sees it."""

    def flush_is_due(self, now_s: float) -> bool:
        """Whether it is to be flushed now; `now_s` is the event loop's time."""

    def flush_is_coming(self) -> bool:
        """Whether a flush will be due without any further use of the log."""

    async def flush(self) -> None:
        """Flush it. Raises StorageError."""


class LogDirectory:
    """A context manager: an OSError inside is raised as StorageError, and fails the directory for good if it is an
    error of the disk; any other is raised as LogOperationError. A want of room makes it full: what else is not needed
    to keep what it has is refused until there is room.

    Entering a failed directory raises StorageError at once. Everything runs on the event loop. `min_free_bytes`: the
    setting, None if it is not set.
    """

    def __init__(self, disk: Disk, path: str, on_failure: OnFailure, *, min_free_bytes: int | None = None) -> None:
        self.path = path
        self.failure: OSError | None = None
        self.shortage: str | None = None
        """Why it takes no records at present; None if it does."""
        self.room = DiskRoom(-1, -1)
        """As it was measured last."""
        self.has_refused = False
        """Whether a write was refused for want of room, and none was tried successfully since."""
        self.on_doubt: Callable[[], None] = lambda: None
        """Called when the room is to be measured: a write was refused, or so much was appended that it may be short."""
        self.is_new = False
        """Whether it had no identity when it was opened, and has none yet: it may be in the place of another one."""
        self.was_identified = False
        """Whether it had one."""
        self.users = 0
        """Number of operations in it that have not ended."""
        self._min_free_bytes = min_free_bytes
        self._left: float = inf  # Bytes that may be appended before the room is measured again.
        self.checkpoint_writing = asyncio.Lock()
        """Serialises writers of the directory's checkpoints: they share the name of the temporary file."""
        self.cut_markers: list[str] = []
        """Paths of markers of logs truncated below what the checkpoints may hold."""
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """What the checkpoint of high watermarks may have at most, which a log's own may have fallen below since."""
        self.to_forget: set[TopicPartition] = set()
        """Partitions that were deleted from here and may be in the checkpoints still."""
        self.used: dict[FlushedLog, None] = {}
        """The logs of which a flush may be due: those used since the last check, and those whose time will come."""
        self._names, self._flushed_names = 0, 0  # Number of calls of `flush_names`, and of those that are done.
        self._names_flushing = asyncio.Lock()
        self.epoch_journal = EpochJournal(disk, path)
        self.creations = GroupedWork(disk, _all_of)
        """Creates logs."""
        self._disk = disk
        self._on_failure = on_failure
        self._release: Callable[[], None] | None = None
        self._to_remove: list[tuple[float, str]] = []  # (loop time in s, path)

    def __enter__(self) -> None:
        if self.failure is not None:
            raise StorageError(self.path, f"failed before: {self.failure}")
        self.users += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.users -= 1
        if isinstance(error, OSError):
            if is_want_of_room(error):
                self._refuse_records(error)
                raise FullDirectoryError(self.path, f"is full: {describe(error)}") from error
            if not is_error_of_disk(error):
                raise LogOperationError(self.path, describe(error)) from error
            self.fail(error)
            raise StorageError(self.path, str(error)) from error

    def fail(self, error: OSError) -> None:
        """Take the directory out of service and report the error; later failures are ignored."""
        if self.failure is None:
            self.failure = error
            self.unlock()
            self._on_failure(self.path, error)

    def report_to(self, on_failure: OnFailure) -> None:
        """Report a failure to somebody else from now on."""
        self._on_failure = on_failure

    # Room

    @property
    def reserve(self) -> int:
        """The bytes that records must leave free."""
        return self.reserve_at(self.room)

    def reserve_at(self, room: DiskRoom) -> int:
        """The bytes that records must leave free on a file system of this size."""
        return reserve_of(self._min_free_bytes, room.total)

    def check_room(self) -> None:
        """Raise FullDirectoryError if no records are taken at present."""
        if self.shortage is not None:
            raise FullDirectoryError(self.path, f"is full: {self.shortage}")

    def took(self, size: int) -> None:
        """Take note of bytes that were appended: as soon as they may have used up the room, it is measured again."""
        self._left -= size
        if self._left < 0:
            self._left = inf
            self.on_doubt()

    def take_measure(self, room: DiskRoom, refusal: OSError | None = None) -> None:
        """Decide by its free space whether the directory takes records. `refusal`: why a write was refused just now."""
        self.room = room
        self._left = room.free - self.reserve if room.is_known else inf
        self.has_refused = refusal is not None
        if is_short(room, self.reserve, was_short=self.shortage is not None):
            free = f"{room.free} of {room.total} bytes are free"
            self.shortage = f"{free}, and {self.reserve} are kept for other things than records ({MIN_FREE_BYTES})"
        else:
            self.shortage = None if refusal is None else describe(refusal)

    async def measure_room(self) -> None:
        """Measure the free space, and try to write where a write was refused: there are quotas, too. An error of the
        disk fails the directory. Raises StorageError.
        """
        with self:
            room, refusal = await self._disk.run(self._measure)
            self.take_measure(room, refusal)

    def _measure(self) -> tuple[DiskRoom, OSError | None]:
        room = DiskRoom(*self._disk.space(self.path))
        if self.has_refused:
            try:
                self._disk.check_room(self.path, room_to_try(room.total))
            except OSError as error:
                if not is_want_of_room(error):
                    raise
                return room, error
        return room, None

    def has_room_to_clean(self, largest_output: int) -> bool:
        """Whether a log that compaction leaves this large at most may be compacted."""
        return has_room_to_clean(self.room, self.reserve, largest_output)

    def _refuse_records(self, error: OSError) -> None:
        self.has_refused = True
        if self.shortage is None:
            self.shortage = describe(error)
        self.on_doubt()

    # Flushes

    def take_due(self, now_s: float) -> list[FlushedLog]:
        """The logs that are to be flushed now. Looks at the used ones only."""
        used, self.used = self.used, {}
        due = []
        for log in used:
            if log.flush_is_due(now_s):
                due.append(log)
            elif log.flush_is_coming():
                self.used[log] = None
        return due

    async def flush_names(self) -> None:
        """Flush the names in the directory. One flush is for all who ask before it begins. Raises OSError."""
        self._names += 1
        mine = self._names
        async with self._names_flushing:
            if self._flushed_names < mine:
                covered = self._names
                await self._disk.run(partial(self._disk.sync_directory, self.path))
                self._flushed_names = covered

    # Lock

    def lock(self) -> None:
        """Lock the directory. Raises StartupError if another process uses it."""
        self._release = self._disk.lock(f"{self.path}/{checkpoints.LOCK_FILE}")
        if self._release is None:
            raise StartupError(
                f"log directory {self.path} is used by another process (it holds {checkpoints.LOCK_FILE}); "
                "stop that process or configure another directory"
            )

    def unlock(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None

    def mark_cut(self, partition_path: str, offset: Offset, checkpointed: Offset) -> None:
        """Create a marker before the log in `partition_path` is truncated to `offset`, if that is below what may be
        checkpointed.
        """
        if offset < checkpointed:
            self.cut_markers.append(create_cut_marker(self._disk, partition_path, offset))

    def take_cut_markers(self) -> list[str]:
        """The markers that may be deleted once what is read after this call was checkpointed."""
        taken, self.cut_markers = self.cut_markers, []
        return taken

    def renamed(self, old: str, new: str) -> None:
        """Take note that a partition's directory was renamed: what is to be deleted in it has another path now."""
        self.cut_markers = [_moved(path, old, new) for path in self.cut_markers]
        self._to_remove = [(due, _moved(path, old, new)) for due, path in self._to_remove]

    def remove_later(self, paths: list[str], delay_ms: int) -> None:
        """Delete files or directories after the delay, as readers may still use them."""
        due = asyncio.get_running_loop().time() + delay_ms / 1000
        self._to_remove.extend((due, path) for path in paths)

    async def remove_due(self) -> None:
        """Delete what `remove_later` was given and whose delay is over. Raises StorageError."""
        now = asyncio.get_running_loop().time()
        due = [path for at, path in self._to_remove if at <= now]
        if not due:
            return
        self._to_remove = [item for item in self._to_remove if item[0] > now]
        try:
            with self:
                await self._disk.run(lambda: self._remove(due))
        except LogOperationError:
            self._to_remove.extend((now, path) for path in due)
            raise

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            if self._disk.is_directory(path):
                self._disk.remove_tree(path)
            else:
                self._disk.remove_file(path)


def _all_of(creations: Sequence[Callable[[], LoadedLog]]) -> list[LoadedLog | Exception]:
    return [_outcome_of(create) for create in creations]


def _outcome_of(create: Callable[[], LoadedLog]) -> LoadedLog | Exception:
    try:
        return create()
    except OSError as error:
        return error


def _moved(path: str, old: str, new: str) -> str:
    return new + path.removeprefix(old) if path.startswith(f"{old}/") else path
