"""The Disk on the operating system's files: fsync, flock, and the agent's thread pool for them."""

import asyncio
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from broker_agent.log.disk_errors import lost_writes
from broker_agent.log.open_files import OpenFiles, open_regular

T = TypeVar("T")

_ROOM_CHECK: Final = "room-check.tmp"


class FileDiskFile:
    """A file of the operating system, by whatever descriptor it has at the moment."""

    __slots__ = ("_file", "_files")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files, self._file = files, files.open(path)

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, buffers: Sequence[bytes | memoryview]) -> None:
        if self._file.failure is not None:
            raise self._file.failure
        wanted = sum(map(len, buffers))
        descriptor = self._files.pin(self._file)
        try:
            written = os.writev(descriptor, buffers)
            if written < wanted:
                self._append_rest(descriptor, b"".join(buffers)[written:])
            self._file.size += wanted
        except OSError as error:
            self._add_name(error)
            raise
        finally:
            self._files.unpin(self._file, changed=True)

    def _append_rest(self, descriptor: int, rest: bytes) -> None:
        """Write what a full disk or a limit left of a write, or get its error and take the torn part back."""
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError as error:
            try:
                os.ftruncate(descriptor, self._file.size)
            except OSError:
                # What comes next would follow a torn batch: the file is of no use until the next start recovers it.
                self._file.failure = OSError(errno.EIO, "part of a write could not be taken back")
                raise self._file.failure from error
            raise

    def read(self, position: int, length: int) -> bytes:
        descriptor = self._files.pin(self._file)
        try:
            return os.pread(descriptor, length, position)
        except OSError as error:
            self._add_name(error)
            raise
        finally:
            self._files.unpin(self._file)

    def truncate(self, size: int) -> None:
        descriptor = self._files.pin(self._file)
        try:
            os.ftruncate(descriptor, size)
            self._file.size = size
        except OSError as error:
            self._add_name(error)
            raise
        finally:
            self._files.unpin(self._file, changed=True)

    def flusher(self) -> Callable[[], None]:
        return self._files.flusher(self._file)

    def begin_write_back(self) -> None:
        descriptor = self._files.pin(self._file)
        try:
            # Refused advice costs nothing but time. Tried on ext4: 1,500 files that are replaced in groups of 32
            # take half of it.
            with suppress(OSError):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            self._files.unpin(self._file)

    def close(self) -> None:
        self._files.close(self._file)

    def _add_name(self, error: OSError) -> None:
        """Name the file in an error of a call that knows only its descriptor."""
        error.filename = self._file.path


class FileDisk:
    """Disk on the file system.

    `threads` limits the number of concurrent blocking operations, `open_files_max` that of files that are open but not
    in use. When the process runs out of descriptors, operations close such files and continue.
    """

    def __init__(self, threads: int = 4, open_files_max: int = 1024) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="log-disk")
        self.open_files = OpenFiles(open_files_max)

    def open_file(self, path: str) -> FileDiskFile:
        return FileDiskFile(self.open_files, path)

    def read_file(self, path: str) -> bytes | None:
        try:
            with self.open_files.with_descriptor(lambda: open(path, "rb", opener=open_regular)) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def list_directory(self, path: str) -> list[str]:
        return sorted(self.open_files.with_descriptor(lambda: os.listdir(path)))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(f"{path} cannot be read and written")

    def rename(self, old: str, new: str) -> None:
        self.open_files.rename(old, new)

    def remove_file(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        try:
            self.open_files.with_descriptor(lambda: shutil.rmtree(path))
        except FileNotFoundError:
            return

    def sync_directory(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self.open_files.with_descriptor(lambda: os.open(path, flags))
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise lost_writes(error, path) from None
        finally:
            os.close(descriptor)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000,) * 2)

    def space(self, path: str) -> tuple[int, int]:
        usage = os.statvfs(path)
        return usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize

    def check_room(self, path: str, size: int) -> None:
        name = f"{path}/{_ROOM_CHECK}"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        descriptor = self.open_files.with_descriptor(lambda: open_regular(name, flags))
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            error.filename = name
            raise
        finally:
            os.close(descriptor)
            os.unlink(name)

    def lock(self, path: str) -> Callable[[], None] | None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = self.open_files.with_descriptor(lambda: os.open(path, flags, 0o644))
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
            # The thread continues, using files that the caller's locks protect: keep the locks until it is done.
            await asyncio.wait([running])
            raise

    def close(self) -> None:
        self._executor.shutdown(wait=True)
        self.open_files.shut_down()
