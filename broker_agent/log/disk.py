"""The disk operations of a log, implemented on files and in the simulator.

`FileDisk` (file_disk.py) uses the operating system; the simulator's disk loses or tears unflushed data. Every failure
is an OSError; the caller decides what it means for the directory.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class DiskFile(Protocol):
    """An open file that is appended to and can be truncated.

    It stays usable when the file or its directory is renamed; one that was removed may only be closed.
    """

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Append all buffers to the page cache, normally with one write; all of it, or OSError and nothing."""

    def read(self, position: int, length: int) -> bytes:
        """The bytes from `position`; fewer than `length` only at the end of the file."""

    def truncate(self, size: int) -> None: ...

    def flusher(self) -> Callable[[], None]:
        """A function, callable from any thread, that flushes what the file holds at this call.

        It must be called exactly once, and raises OSError; making it raises nothing. Closing or removing the file in
        the meantime is harmless.
        """

    def begin_write_back(self) -> None:
        """Let the system begin to write what a flush will need, without waiting: files of a group then share it."""

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and directories by path; every operation but `run` blocks. Raises OSError."""

    def open_file(self, path: str) -> DiskFile:
        """Open for reading and appending; created when missing."""

    def read_file(self, path: str) -> bytes | None:
        """The whole content, or None when there is no such file."""

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create it with its parents; no error when it exists. OSError unless it can be read and written."""

    def rename(self, old: str, new: str) -> None:
        """Rename atomically; replaces an existing file, never a directory that is not empty."""

    def remove_file(self, path: str) -> None:
        """Remove one file; a missing one is no error."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with what is in it; a missing one is no error."""

    def sync_directory(self, path: str) -> None:
        """Flush the directory: makes files created, renamed and removed in it durable."""

    def modified_ms(self, path: str) -> int:
        """The time when the file was last written, in ms since the Unix epoch."""

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the time when the file was last written, in ms since the Unix epoch."""

    def space(self, path: str) -> tuple[int, int]:
        """The total and usable bytes of the file system; -1 where unknown."""

    def check_room(self, path: str, size: int) -> None:
        """Try whether a file of this size can be made in a directory, and leave none. Raises OSError: the free space is
        not all that counts, as there are quotas, and file systems without inodes.
        """

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file exclusively until the process ends; returns a function that releases it, None if it is locked."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run blocking work in a worker thread; several at a time, in no particular order.

        Started work is completed even if the awaiting task is cancelled, which then ends when the work has ended.
        """

    def close(self) -> None:
        """Wait for running work and end the threads."""
