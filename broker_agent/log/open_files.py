"""A bounded number of descriptors for an unbounded number of files, so that every replica may have a log.

A file that is not in use is closed when another one needs its descriptor, the least recently used first, and opened
again on demand. A descriptor in use is pinned and never closed.

A file may be closed with unflushed writes: fsync by a later descriptor flushes them, and reports a failed write-back as
long as the kernel has the inode in memory (Linux since 4.16), where it is held until then. An error of the disk from
fsync stays with the file, as a second fsync would succeed although the data is lost: every later append and flush
raises it.
"""

import ctypes
import errno
import mmap
import os
import stat
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

from broker_agent.log.disk_errors import is_error_of_disk, lost_writes

T = TypeVar("T")

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
"""O_APPEND: a write goes to the end, also after a truncation."""
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
SPARE_DESCRIPTORS: Final = 8
"""Held in reserve: connections must not take the last descriptors from the logs."""


class IrregularFileError(OSError):
    """Not a file of bytes: a pipe would block the process, a device never end."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "not a regular file, move it away", path)


def open_regular(path: str, flags: int, mode: int = 0o644) -> int:
    """Open a regular file. Raises OSError for anything else, without blocking."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IrregularFileError(path)
    return descriptor


class OpenFile:
    """A file opened by `OpenFiles`, which alone changes it, but for `size`; its descriptor comes and goes."""

    __slots__ = (
        "descriptor",
        "failure",
        "flushed",
        "flushers",
        "hold",
        "identity",
        "is_closed",
        "path",
        "pins",
        "size",
        "writes",
    )

    def __init__(self, path: str, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.path, self.descriptor = path, descriptor
        self.identity = (status.st_dev, status.st_ino)
        self.size = status.st_size
        self.pins = 0
        self.writes = 0  # Number of changes.
        self.flushed = -1  # `writes` at the latest fsync. -1: an earlier process may have left unflushed data.
        self.flushers = 0  # Those made and not yet called.
        self.failure: OSError | None = None
        self.hold: int | None = None  # On the inode.
        self.is_closed = False

    @property
    def is_dirty(self) -> bool:
        """Whether an error of what was written may still come."""
        return 0 < self.writes > self.flushed


class OpenFiles:
    """Callable from any thread."""

    def __init__(self, capacity: int) -> None:
        assert capacity > 0, "at least one file is open"
        self._capacity = capacity
        self._lock = threading.Lock()
        self._count = 0
        # Files with a descriptor that is not pinned, by last use, the oldest first.
        self._idle: OrderedDict[OpenFile, None] = OrderedDict()
        self._in_directory: dict[str, dict[str, set[OpenFile]]] = {}
        """Directory -> path -> open files there: a cleaning renames each of thousands."""
        self._spare: list[int] = []
        # As for file objects: whatever is open is closed at the latest with the last reference.
        weakref.finalize(self, _close_all, self._spare, self._in_directory)
        self._refill_spare()

    @property
    def count(self) -> int:
        """The number of files that have a descriptor now."""
        return self._count

    def open(self, path: str) -> OpenFile:
        """Open for reading and appending; created when missing."""
        self._make_room()
        self._refill_spare()
        file = OpenFile(path, self.with_descriptor(lambda: open_regular(path, _FLAGS | os.O_CREAT)))
        with self._lock:
            self._count += 1
            self._enter_directory(file)
            self._release(file)
        return file

    def close(self, file: OpenFile) -> None:
        """Close without fsync, once no pin and no flusher is left. May be called again."""
        with self._lock:
            if not file.is_closed:
                file.is_closed = True
                self._release(file)

    def pin(self, file: OpenFile) -> int:
        """The descriptor, which stays open until `unpin`; each call needs one."""
        while True:
            with self._lock:
                if file.descriptor >= 0:
                    return self._pin(file)
            self._reopen(file)

    def unpin(self, file: OpenFile, *, changed: bool = False) -> None:
        """Release a file. `changed`: whether its descriptor was written to, completely or not."""
        with self._lock:
            file.writes += changed
            file.pins -= 1
            self._release(file)

    def flusher(self, file: OpenFile) -> Callable[[], None]:
        """A function that flushes what the file holds now; to be called once."""
        with self._lock:
            wanted = file.writes
            file.flushers += 1

        def flush() -> None:
            try:
                self._flush(file, wanted)
            finally:
                with self._lock:
                    file.flushers -= 1
                    self._release(file)

        return flush

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory; open files keep working under the new name."""
        with self._lock:
            os.replace(old, new)
            inside = [file for files in self._in_directory.get(old, {}).values() for file in files]
            for file in (*inside, *self._in_directory.get(_parent(old), {}).get(old, ())):
                self._leave_directory(file)
                file.path = new + file.path.removeprefix(old)
                self._enter_directory(file)

    def with_descriptor(self, call: Callable[[], T]) -> T:
        """Run a call that needs a descriptor; if there is none, files that are not in use are closed for it."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS or not (self._close_one() or self._close_spare()):
                    raise

    def shut_down(self) -> None:
        """Give up the reserve."""
        while self._close_spare():
            pass

    # Steps that hold the lock

    def _pin(self, file: OpenFile) -> int:
        self._idle.pop(file, None)
        file.pins += 1
        return file.descriptor

    def _release(self, file: OpenFile) -> None:
        """Make a file that is not in use available for closing; forget one that was closed."""
        if file.pins:
            return
        if file.is_closed and not file.flushers:
            self._forget(file)
        elif file.descriptor >= 0:
            self._idle[file] = None

    def _forget(self, file: OpenFile) -> None:
        self._idle.pop(file, None)
        if file.descriptor >= 0:
            self._close_descriptor(file)
        self._release_hold(file)
        self._leave_directory(file)

    def _close_descriptor(self, file: OpenFile) -> None:
        os.close(file.descriptor)
        file.descriptor = -1
        self._count -= 1

    def _close_idle(self, file: OpenFile) -> None:
        if file.is_dirty and file.hold is None:
            try:
                file.hold = hold_inode(file.descriptor)
            except OSError:
                self._fsync_before_closing(file)
        self._close_descriptor(file)

    def _fsync_before_closing(self, file: OpenFile) -> None:
        """Flush with the descriptor that wrote, as no memory is left for a hold: it alone gets the error."""
        try:
            os.fsync(file.descriptor)
            file.flushed = file.writes
        except OSError as error:
            file.failure = lost_writes(error, file.path)

    def _release_hold(self, file: OpenFile) -> None:
        if file.hold is not None:
            release_inode(file.hold)
            file.hold = None

    def _enter_directory(self, file: OpenFile) -> None:
        self._in_directory.setdefault(_parent(file.path), {}).setdefault(file.path, set()).add(file)

    def _leave_directory(self, file: OpenFile) -> None:
        siblings = self._in_directory[_parent(file.path)]
        siblings[file.path].remove(file)
        if not siblings[file.path]:
            del siblings[file.path]
        if not siblings:
            del self._in_directory[_parent(file.path)]

    # Steps that take the lock

    def _reopen(self, file: OpenFile) -> None:
        self._make_room()
        path = file.path
        try:
            descriptor = self.with_descriptor(lambda: open_regular(path, _FLAGS))
        except FileNotFoundError:
            if path != file.path:
                return  # Renamed meanwhile.
            raise
        with self._lock:
            error = None if file.descriptor >= 0 else _find_difference(file, descriptor)
            if file.descriptor >= 0 or error is not None:
                os.close(descriptor)
            else:
                file.descriptor = descriptor
                self._count += 1
                self._release(file)
        if error is not None:
            raise error

    def _make_room(self) -> None:
        """Close files until there is room for one more. If all are in use there are more, by as many as use them."""
        while self._count >= self._capacity and self._close_one():
            pass

    def _close_one(self) -> bool:
        """Close the file that was not used for longest; False if all are in use."""
        with self._lock:
            if self._idle:
                self._close_idle(self._idle.popitem(last=False)[0])
                return True
        return False

    def _flush(self, file: OpenFile, wanted: int) -> None:
        """Flush at least the first `wanted` changes."""
        if file.failure is None and file.flushed >= wanted:
            return
        try:
            self.pin(file)
        except OSError as error:
            if file.is_closed and error.errno in (errno.ENOENT, errno.ESTALE):
                return  # It was removed, and there may be another of its name.
            raise
        try:
            self._flush_pinned(file)
        finally:
            self.unpin(file)

    def _flush_pinned(self, file: OpenFile) -> None:
        if file.failure is not None:
            raise file.failure
        writes = file.writes
        try:
            os.fsync(file.descriptor)
        except OSError as caught:
            error = lost_writes(caught, file.path)
            if is_error_of_disk(error):
                file.failure = error
            if error is caught:
                raise
            raise error from caught
        with self._lock:
            file.flushed = max(file.flushed, writes)
            if not file.is_dirty:
                self._release_hold(file)

    def _close_spare(self) -> bool:
        with self._lock:
            if self._spare:
                os.close(self._spare.pop())
                return True
        return False

    def _refill_spare(self) -> None:
        if len(self._spare) == SPARE_DESCRIPTORS:
            return
        with self._lock:
            try:
                while len(self._spare) < SPARE_DESCRIPTORS:
                    self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return  # All are in use; the next file to be opened tries again.


def _close_all(spare: list[int], in_directory: dict[str, dict[str, set[OpenFile]]]) -> None:
    files = [file for by_path in in_directory.values() for files in by_path.values() for file in files]
    for descriptor in (*spare, *(file.descriptor for file in files if file.descriptor >= 0)):
        os.close(descriptor)


def _find_difference(file: OpenFile, descriptor: int) -> OSError | None:
    """Say why this descriptor is not of the file as it was left."""
    status = os.fstat(descriptor)
    if file.is_closed and not file.flushers:
        return OSError(errno.EBADF, "the file was closed", file.path)
    # A closed file may have been opened and changed by another object since.
    is_same_size = file.is_closed or status.st_size == file.size
    if (status.st_dev, status.st_ino) != file.identity or not is_same_size:
        return OSError(errno.ESTALE, "another program changed or replaced the file", file.path)
    return None


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


_PROT_NONE: Final = 0
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [
    *(ctypes.c_void_p, ctypes.c_size_t),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED: Final = ctypes.c_void_p(-1).value


def hold_inode(descriptor: int) -> int:
    """Keep a file in the kernel's memory without a descriptor, until `release_inode` of what is returned.

    A failed write-back is remembered with the inode, and reported to whoever calls fsync next, unless the inode was
    dropped from memory meanwhile. A mapping of the file prevents that, and counts as no open file. Tried on Linux 6.18
    with ext4 on a failing device: after the file was closed and its inode dropped, fsync by a new descriptor succeeded
    although the data was lost; with a mapping it failed. Not by the module `mmap`, which duplicates the descriptor.
    Raises OSError, as with too many mappings.
    """
    address = _LIBC.mmap(None, mmap.PAGESIZE, _PROT_NONE, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED or address is None:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(address)


def release_inode(address: int) -> None:
    _LIBC.munmap(address, mmap.PAGESIZE)
