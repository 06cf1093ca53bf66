"""Follows the files with users and keys: they are read again when they have changed."""

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from cluster.tls.guarded_files import read_guarded

_T = TypeVar("_T")


class FollowedFile(Generic[_T]):
    """Holds what a file says, and reads it again when it has changed. Blocks; any thread may ask.

    `holds`: what is in it that others must not read, for messages; empty: others may read it.
    """

    def __init__(self, name: str, path: str, parse: Callable[[str, bytes], _T], *, holds: str) -> None:
        """`name`: the setting that names the file; `parse` gets what messages begin with, and the content."""
        self._name, self._path, self._parse, self._holds = name, path, parse, holds
        self._read: tuple[tuple[int, int, int], _T] | None = None

    def current(self) -> _T:
        """Return what the file says now. Raises ConfigError, and then keeps nothing."""
        try:
            found = os.stat(self._path)
            stamp = found.st_ino, found.st_mtime_ns, found.st_size
        except (OSError, ValueError):
            stamp = -1, -1, -1
        if self._read is None or self._read[0] != stamp:
            self._read = None
            content = read_guarded(self._name, self._path, self._holds)
            self._read = stamp, self._parse(f"{self._name}: {self._path}", content)
        return self._read[1]
