"""The Disk on the operating system's files: raw descriptors, fsync, flock, and the agent's thread pool for them."""

import asyncio
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class FileDiskFile:
    """One raw descriptor. O_APPEND: a write goes to the end, also after a truncation."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    @property
    def size(self) -> int:
        return self._size

    def append(self, buffers: Sequence[bytes | memoryview]) -> None:
        wanted = sum(map(len, buffers))
        written = os.writev(self._descriptor, buffers)
        if written != wanted:
            # A full disk accepts part of the data without an error; the torn tail is truncated by the next start.
            raise OSError(f"wrote {written} of {wanted} bytes")
        self._size += written

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._size = size

    def flusher(self) -> Callable[[], None]:
        # A duplicate: this descriptor may be closed, and its number reused, before the thread runs.
        duplicate = os.dup(self._descriptor)

        def flush() -> None:
            try:
                os.fsync(duplicate)
            finally:
                os.close(duplicate)

        return flush

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FileDisk:
    """Disk on the file system. `threads` limits the number of concurrent blocking operations."""

    def __init__(self, threads: int = 4) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="log-disk")

    def open_file(self, path: str) -> FileDiskFile:
        return FileDiskFile(path)

    def read_file(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(f"{path} cannot be read and written")

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove_file(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def space(self, path: str) -> tuple[int, int]:
        usage = os.statvfs(path)
        return usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize

    def lock(self, path: str) -> Callable[[], None] | None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return lambda: os.close(descriptor)

    async def run(self, work: Callable[[], T]) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            # Shielded: a queued fsync must run even if nobody waits for it any more.
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread goes on, using files that the caller's locks protect: keep the locks until it is done.
            await asyncio.wait([running])
            raise

    def close(self) -> None:
        self._executor.shutdown(wait=True)
