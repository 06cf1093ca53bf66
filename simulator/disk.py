"""In-memory disk that loses or tears unflushed data on a power failure; the simulator's counterpart of `FileDisk`.

The same log code runs on both. Names (create, rename, remove) are durable at once; the content of a file is durable up
to its length at the last flush. A truncation below that point may be undone by a power failure, as long as no name
changed since.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from cluster.aio.clock import WallClock

T = TypeVar("T")

TOTAL_BYTES = 1 << 40
BLOCK_SIZE = 512


class _Inode:
    """Content of a file, and how much of it survives a power failure."""

    def __init__(self, now_ms: int) -> None:
        self.content = bytearray()
        self.durable_size = 0
        self.content_before_cut: bytes | None = None
        self.modified_ms = now_ms

    def cut(self, size: int) -> None:
        if size < self.durable_size:
            if self.content_before_cut is None:
                self.content_before_cut = bytes(self.content[: self.durable_size])
            self.durable_size = size
        del self.content[size:]

    def flush(self) -> None:
        self.durable_size = len(self.content)
        self.content_before_cut = None

    def lose_power(self, chance: Random) -> None:
        if self.content_before_cut is not None and chance.random() < 0.5:
            self.content = bytearray(self.content_before_cut)
        else:
            kept = chance.randint(self.durable_size, len(self.content))
            del self.content[kept:]
            if kept > self.durable_size and chance.random() < 0.25:
                # Blocks reach the device in any order: the file size may include a block that is still empty.
                start = chance.randrange(self.durable_size, kept) // BLOCK_SIZE * BLOCK_SIZE
                lost = range(max(start, self.durable_size), min(start + BLOCK_SIZE, kept))
                self.content[lost.start : lost.stop] = bytes(len(lost))
        self.flush()


class SimulatedFile:
    """An open file; unusable once the process that opened it has ended."""

    def __init__(self, disk: "SimulatedDisk", path: str, inode: _Inode) -> None:
        self._disk, self._path, self._inode = disk, path, inode
        self._process = disk.process

    @property
    def size(self) -> int:
        return len(self._inode.content)

    def append(self, buffers: Sequence[bytes | memoryview]) -> None:
        self._check()
        self._disk.take_room(self._path, sum(map(len, buffers)))
        for buffer in buffers:
            self._inode.content += buffer
        self._inode.modified_ms = self._disk.clock.now_ms()

    def read(self, position: int, length: int) -> bytes:
        self._check()
        return bytes(self._inode.content[position : position + length])

    def truncate(self, size: int) -> None:
        self._check()
        self._inode.cut(size)

    def flusher(self) -> Callable[[], None]:
        def flush() -> None:
            self._check()
            self._inode.flush()

        return flush

    def begin_write_back(self) -> None:
        self._check()

    def close(self) -> None:
        """No effect."""

    def _check(self) -> None:
        if self._process != self._disk.process:
            raise OSError(errno.EBADF, "the process that opened it is gone", self._path)
        self._disk.check(self._path)


class SimulatedDisk:
    """Implements `broker_agent.log.disk.Disk`. `latency_s`: bounds of the duration of `run`, in virtual seconds."""

    def __init__(self, clock: WallClock, random: Random, *, latency_s: tuple[float, float] = (0.0, 0.0)) -> None:
        self.clock = clock
        self.process = 0
        """Number of the process that uses the disk; files and locks of earlier ones are invalid."""
        self.latency_s = latency_s
        self._random = random
        self._files: dict[str, _Inode] = {}
        self._directories: set[str] = set()
        self._locks: set[str] = set()
        self._broken: set[str] = set()
        self._capacities: dict[str, int] = {}
        self._refusals: list[int] = []

    # Faults

    def kill_process(self) -> None:
        """End the process as with SIGKILL: the page cache survives."""
        self.process += 1
        self._locks.clear()

    def lose_power(self) -> None:
        """Lose, tear or corrupt everything unflushed."""
        self.kill_process()
        for path in sorted(self._files):
            self._files[path].lose_power(self._random)

    def flip_byte(self, path: str, share: float) -> None:
        """Change the byte at this share of a file's size, as a failing device does; durable at once."""
        content = self._files[path].content
        content[int(share * len(content))] ^= 0xFF

    def break_directory(self, path: str) -> None:
        """Fail every operation in or below the directory with an I/O error from now on."""
        self._broken.add(path)

    def mend_directory(self, path: str) -> None:
        """Let operations below this directory succeed again."""
        self._broken.discard(path)

    def limit(self, path: str, free: int | None) -> None:
        """Let what is below this directory be a file system with so many free bytes; None: as many as it needs."""
        if free is None:
            self._capacities.pop(path, None)
        else:
            self._capacities[path] = self._used(path) + free

    def take_room(self, path: str, size: int) -> None:
        """Raise OSError if there is no room for so many bytes more; a new name needs one."""
        for directory, capacity in self._capacities.items():
            if path.startswith(f"{directory}/") and self._used(directory) + size > capacity:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _used(self, directory: str) -> int:
        below = f"{directory}/"
        return sum(len(inode.content) for path, inode in self._files.items() if path.startswith(below))

    def refuse(self, number: int, count: int) -> None:
        """Refuse the next `count` operations with this errno, as for want of descriptors."""
        self._refusals = [number] * count

    def check(self, path: str) -> None:
        if self._refusals:
            number = self._refusals.pop()
            raise OSError(number, os.strerror(number), path)
        self._check_device(path)

    def _check_device(self, path: str) -> None:
        if any(path == broken or path.startswith(f"{broken}/") for broken in self._broken):
            raise OSError(errno.EIO, "input/output error", path)

    # Disk

    def _names_change(self, path: str) -> None:
        """Make truncations durable before a later change of a name, as a file system journal does."""
        self.check(path)
        for inode in self._files.values():
            inode.content_before_cut = None

    def open_file(self, path: str) -> SimulatedFile:
        self.check(path)
        parent, _, _ = path.rpartition("/")
        if parent not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)
        if path not in self._files:
            self.take_room(path, 1)
            self._names_change(path)
            self._files[path] = _Inode(self.clock.now_ms())
        return SimulatedFile(self, path, self._files[path])

    def read_file(self, path: str) -> bytes | None:
        self.check(path)
        inode = self._files.get(path)
        return None if inode is None else bytes(inode.content)

    def list_directory(self, path: str) -> list[str]:
        self.check(path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        below = f"{path}/"
        inside = (name for name in (*self._files, *self._directories) if name.startswith(below))
        return sorted({name.removeprefix(below).partition("/")[0] for name in inside})

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def make_directory(self, path: str) -> None:
        self.check(path)
        if path not in self._directories:
            self.take_room(path, 1)
        while path:
            self._directories.add(path)
            path = path.rpartition("/")[0]

    def rename(self, old: str, new: str) -> None:
        self._names_change(old)
        if old in self._files:
            self._files[new] = self._files.pop(old)
            return
        if old not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        if new in self._directories and self.list_directory(new):
            raise OSError(errno.ENOTEMPTY, "directory not empty", new)
        self._directories = {self._moved(path, old, new) for path in self._directories}
        self._files = {self._moved(path, old, new): inode for path, inode in self._files.items()}

    @staticmethod
    def _moved(path: str, old: str, new: str) -> str:
        return new + path.removeprefix(old) if path == old or path.startswith(f"{old}/") else path

    def remove_file(self, path: str) -> None:
        self._names_change(path)
        self._files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        self.check(path)
        below = f"{path}/"
        self._directories = {name for name in self._directories if name != path and not name.startswith(below)}
        self._files = {name: inode for name, inode in self._files.items() if not name.startswith(below)}

    def sync_directory(self, path: str) -> None:
        self.check(path)

    def modified_ms(self, path: str) -> int:
        self.check(path)
        return self._files[path].modified_ms

    def set_modified(self, path: str, modified_ms: int) -> None:
        self.check(path)
        self._files[path].modified_ms = modified_ms

    def space(self, path: str) -> tuple[int, int]:
        self._check_device(path)  # It takes no descriptor.
        for directory, capacity in self._capacities.items():
            if path == directory or path.startswith(f"{directory}/"):
                return capacity, max(0, capacity - self._used(directory))
        return TOTAL_BYTES, TOTAL_BYTES - self._used("")

    def check_room(self, path: str, size: int) -> None:
        self.check(path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.take_room(f"{path}/room-check.tmp", size)

    def lock(self, path: str) -> Callable[[], None] | None:
        self.check(path)
        if path in self._locks:
            return None
        self._locks.add(path)
        process = self.process

        def release() -> None:
            if process == self.process:
                self._locks.discard(path)

        return release

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work after a random time. Raises OSError if the process that asked for it has ended."""
        process = self.process
        await asyncio.sleep(self._random.uniform(*self.latency_s))
        if process != self.process:
            raise OSError(errno.EIO, "the process that asked for it is gone")
        return work()

    def close(self) -> None:
        """No effect: there are no threads."""
