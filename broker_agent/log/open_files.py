"""A bounded number of descriptors for an unbounded number of files, so that every replica may have a log.

A file that is not in use is closed when another one needs its descriptor, the least recently used first, and opened
again on demand. A descriptor in use is pinned and never closed.

A file with unflushed writes is closed only after an fsync by the descriptor that wrote them: the kernel reports a
failed write-back to the descriptors that were open at the time, and may forget it with the last of them. When most
files are in that state, threads flush the oldest in the background; when all are, whoever needs a descriptor flushes
one. An error of the disk from fsync stays with the file, as a second fsync would succeed although the data is lost:
every later append and flush raises it.
"""

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

from broker_agent.log.disk_errors import is_error_of_disk

T = TypeVar("T")

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
"""O_APPEND: a write goes to the end, also after a truncation."""
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
SPARE_DESCRIPTORS: Final = 8
"""Held in reserve: connections must not take the last descriptors from the logs."""
_CLEANERS: Final = 4
"""Limit of background flushes at a time."""


class OpenFile:
    """A file opened by `OpenFiles`, which alone changes it, but for `size`; its descriptor comes and goes."""

    __slots__ = (
        "descriptor",
        "failure",
        "flushed",
        "flushers",
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
        self.is_closed = False

    @property
    def is_dirty(self) -> bool:
        """Whether closing the descriptor could lose an error of what it wrote."""
        return 0 < self.writes > self.flushed


class OpenFiles:
    """Callable from any thread. `submit` runs a function in another thread."""

    def __init__(self, capacity: int, submit: Callable[[Callable[[], None]], object]) -> None:
        assert capacity > 0, "at least one file is open"
        self._capacity, self._submit = capacity, submit
        self._lock = threading.Lock()
        self._count = 0
        self._cleaners = 0
        # Files that are not pinned, by last use, the oldest first; those that failed are in neither.
        self._clean: OrderedDict[OpenFile, None] = OrderedDict()
        self._dirty: OrderedDict[OpenFile, None] = OrderedDict()
        self._in_directory: dict[str, set[OpenFile]] = {}
        self._spare: list[int] = []
        self._refill_spare()

    @property
    def count(self) -> int:
        """Number of files that have a descriptor now."""
        return self._count

    def open(self, path: str) -> OpenFile:
        """Open for reading and appending; created when missing."""
        self._make_room()
        self._refill_spare()
        file = OpenFile(path, self.with_descriptor(lambda: os.open(path, _FLAGS | os.O_CREAT, 0o644)))
        with self._lock:
            self._count += 1
            self._in_directory.setdefault(_parent(path), set()).add(file)
            self._release(file)
        return file

    def close(self, file: OpenFile) -> None:
        """Close without fsync, but not before its last pin and flusher. May be called again."""
        with self._lock:
            if not file.is_closed:
                file.is_closed = True
                self._leave_directory(file)
                self._release(file)

    def pin(self, file: OpenFile) -> int:
        """The descriptor, which stays open until `unpin`; each call needs one."""
        while True:
            with self._lock:
                if file.descriptor >= 0:
                    return self._pin(file)
            self._reopen(file)

    def unpin(self, file: OpenFile, *, changed: bool = False) -> None:
        """`changed`: the descriptor was written to, completely or not."""
        with self._lock:
            file.writes += changed
            file.pins -= 1
            self._release(file)
            starts_cleaner = changed and len(self._dirty) > self._capacity * 3 // 4 and self._cleaners < _CLEANERS
            self._cleaners += starts_cleaner
        if starts_cleaner:
            self._submit(self._flush_in_background)

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
        """Rename a file or a directory; open files go on under the new name."""
        with self._lock:
            os.replace(old, new)
            moved = {file: new + file.path.removeprefix(old) for file in self._in_directory.pop(old, ())}
            for file in [file for file in self._in_directory.get(_parent(old), ()) if file.path == old]:
                self._leave_directory(file)
                moved[file] = new
            for file, path in moved.items():
                file.path = path
                self._in_directory.setdefault(_parent(path), set()).add(file)

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
        self._clean.pop(file, None)
        self._dirty.pop(file, None)
        file.pins += 1
        return file.descriptor

    def _release(self, file: OpenFile) -> None:
        """Close the file or make it available for closing, as far as it is not in use."""
        if file.pins or file.descriptor < 0:
            return
        self._clean.pop(file, None)
        self._dirty.pop(file, None)
        if file.is_closed and not file.flushers:
            self._close_descriptor(file)
        elif not file.is_dirty:
            self._clean[file] = None
        elif file.failure is None:
            self._dirty[file] = None

    def _close_descriptor(self, file: OpenFile) -> None:
        os.close(file.descriptor)
        file.descriptor = -1
        self._count -= 1

    def _leave_directory(self, file: OpenFile) -> None:
        siblings = self._in_directory[_parent(file.path)]
        siblings.remove(file)
        if not siblings:
            del self._in_directory[_parent(file.path)]

    # Steps that take the lock

    def _reopen(self, file: OpenFile) -> None:
        self._make_room()
        path = file.path
        try:
            descriptor = self.with_descriptor(lambda: os.open(path, _FLAGS))
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
        """Close the file that was not used for longest, after an fsync if all are dirty; False if all are in use."""
        while True:
            with self._lock:
                if self._clean:
                    self._close_descriptor(self._clean.popitem(last=False)[0])
                    return True
            if not self._flush_oldest():
                return False

    def _flush_oldest(self) -> bool:
        """Flush the dirty file that was not used for longest; False if there is none, or it is dirty as before."""
        with self._lock:
            if not self._dirty:
                return False
            file = next(iter(self._dirty))
            self._pin(file)
        try:
            self._flush_pinned(file)
        except OSError:
            # Left to the next who uses the file.
            return file.failure is not None
        finally:
            self.unpin(file)
        return True

    def _flush_in_background(self) -> None:
        """Flush until half of the files can be closed at once."""
        while len(self._dirty) > self._capacity // 2 and self._flush_oldest():
            pass
        with self._lock:
            self._cleaners -= 1

    def _flush(self, file: OpenFile, wanted: int) -> None:
        """Flush at least the first `wanted` changes. A closed file keeps its descriptor if any are left to flush."""
        if file.failure is None and (file.flushed >= wanted or (file.is_closed and file.descriptor < 0)):
            return
        self.pin(file)
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
        except OSError as error:
            error.filename = file.path
            if is_error_of_disk(error):
                file.failure = error
            raise
        with self._lock:
            file.flushed = max(file.flushed, writes)

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


def _find_difference(file: OpenFile, descriptor: int) -> OSError | None:
    """Why this descriptor is not of the file as it was left."""
    status = os.fstat(descriptor)
    if file.is_closed:
        return OSError(errno.EBADF, "the file was closed", file.path)
    if (status.st_dev, status.st_ino, status.st_size) != (*file.identity, file.size):
        return OSError(errno.ESTALE, "another program changed or replaced the file", file.path)
    return None


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
