"""An in-memory disk whose process dies at the change with a given number."""

from collections.abc import Sequence
from random import Random

from cluster.aio.clock import WallClock
from simulator.disk import SimulatedDisk, SimulatedFile


class KilledError(BaseException):
    """No program can catch what ends it."""


class DyingMemoryDisk(SimulatedDisk):
    """`changes_left` changes are made yet; of the data of the next one half arrives. None: it does not die."""

    def __init__(self, clock: WallClock, random: Random) -> None:
        super().__init__(clock, random)
        self.changes_left: int | None = None
        self.changes = 0

    def change(self) -> None:
        self.changes += 1
        if self.changes_left is not None:
            self.changes_left -= 1
            if self.changes_left < 0:
                raise KilledError

    def open_file(self, path: str) -> SimulatedFile:
        if path not in self._files:
            self.change()
        file = super().open_file(path)
        return DyingMemoryFile(self, file)

    def make_directory(self, path: str) -> None:
        if path not in self._directories:
            self.change()
        super().make_directory(path)

    def remove_tree(self, path: str) -> None:
        if path in self._directories:
            self.change()
        super().remove_tree(path)

    def rename(self, old: str, new: str) -> None:
        self.change()
        super().rename(old, new)

    def remove_file(self, path: str) -> None:
        if path in self._files:
            self.change()
        super().remove_file(path)


class DyingMemoryFile(SimulatedFile):
    def __init__(self, disk: DyingMemoryDisk, file: SimulatedFile) -> None:
        super().__init__(disk, file._path, file._inode)
        self._dying = disk

    def append(self, buffers: Sequence[bytes | memoryview]) -> None:
        content = b"".join(buffers)
        if self._dying.changes_left == 0:
            super().append([content[: len(content) // 2]])
        self._dying.change()
        super().append([content])

    def truncate(self, size: int) -> None:
        self._dying.change()
        super().truncate(size)
