"""One log directory: its failure state, its lock, and the files to be deleted from it.

Source: Kafka LogDirFailureChannel, LogManager; KIP-112.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from broker_agent.log import checkpoints
from broker_agent.log.cut_markers import create_cut_marker
from broker_agent.log.disk import Disk
from broker_agent.log.disk_errors import describe, is_error_of_disk
from cluster.model.broker import Offset
from cluster.model.errors import LogOperationError, StartupError, StorageError

OnFailure = Callable[[str, OSError], None]


class LogDirectory:
    """A context manager: an OSError inside is raised as StorageError, and fails the directory for good if it is an
    error of the disk; any other is raised as LogOperationError.

    Entering a failed directory raises StorageError at once. Everything runs on the event loop.
    """

    def __init__(self, disk: Disk, path: str, on_failure: OnFailure) -> None:
        self.path = path
        self.failure: OSError | None = None
        self.checkpoint_writing = asyncio.Lock()
        """Serialises writers of the directory's checkpoints: they share the name of the temporary file."""
        self.cut_markers: list[str] = []
        """Paths of markers of logs truncated below what the recovery-point checkpoint may hold."""
        self._disk = disk
        self._on_failure = on_failure
        self._release: Callable[[], None] | None = None
        self._to_remove: list[tuple[float, str]] = []  # (loop time in s, path)

    def __enter__(self) -> None:
        if self.failure is not None:
            raise StorageError(self.path, f"failed before: {self.failure}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
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

    def mark_cut(self, partition_path: str, offset: Offset, recovery_point: Offset) -> None:
        """Create a marker before the log in `partition_path` is truncated below its recovery point."""
        if offset < recovery_point:
            self.cut_markers.append(create_cut_marker(self._disk, partition_path, offset))

    def take_cut_markers(self) -> list[str]:
        """The markers that may be deleted once recovery points read after this call were checkpointed."""
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


def _moved(path: str, old: str, new: str) -> str:
    return new + path.removeprefix(old) if path.startswith(f"{old}/") else path
