"""The few things a log needs of a disk, so that the very same log runs on files and in the simulator.

`FileDisk` (file_disk.py) is the operating system's; the simulator's loses or tears what was not flushed.
Whatever goes wrong is an OSError; what that means for the directory is decided by the caller.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class DiskFile(Protocol):
    """An open file that grows at its end and can be cut. It stays usable while the file is renamed."""

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Write all buffers with one call to the page cache; all of it, or OSError."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """The bytes from `position`; fewer than `length` only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def flusher(self) -> Callable[[], None]:
        """A function, for any thread, that makes durable what the file holds when it is called.

        It must be called exactly once. Closing or removing the file in the meantime does no harm.
        """
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and directories by path; every operation but `run` blocks. Raises OSError."""

    def open_file(self, path: str) -> DiskFile:
        """Open for reading and appending; created when missing."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """The whole content, or None when there is no such file."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """Names in sorted order."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create it with its parents; no error when it exists. OSError unless it can be read and written."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces an existing file, never an existing directory that has something in it."""
        ...

    def remove_file(self, path: str) -> None:
        """Remove one file; a missing one is no error."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with what is in it; a missing one is no error."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in the directory durable: what was created, renamed and removed there."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in ms since the Unix epoch."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Total and usable bytes of the file system; -1 where unknown."""
        ...

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file exclusively, for the life of this process; the result releases it. None: somebody holds it."""
        ...

    async def run(self, work: Callable[[], T]) -> T:
        """Run blocking work off the event loop; several at a time, in no particular order.

        Work that began is carried out even if the awaiting task is cancelled, which then ends when the work has ended.
        """
        ...

    def close(self) -> None:
        """Wait for running work and end the threads."""
        ...
