"""Gives freed memory back to the operating system, which the C library otherwise keeps for later.

After thousands of connections or a request of 100,000 topics, most of what they took is free, but in pieces between
others. `malloc_trim` of the GNU C library gives back whole pages of it; elsewhere nothing is done. Large blocks, such
as the tables of 100,000 partitions, are kept apart from the others, so that each goes back as soon as it is freed.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Any, Final

_WORTHWHILE_BYTES: Final = 16 << 20
_QUIET_S: Final = 2.0
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 128 << 10
"""The C library begins with this, too, but raises it to the size of each large block that is freed."""


def keep_large_blocks_apart(library: Any = None) -> None:
    """Have each block of 128 KiB or more mapped for itself, for the whole life of the process.

    `library`: a C library, this process's by default; nothing is done where it has no `mallopt`.
    """
    try:
        (ctypes.CDLL(None) if library is None else library).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    except (OSError, AttributeError):
        return


def _trimmer() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found


class FreedMemory:
    """Holds what was freed since memory was given back last."""

    def __init__(self, trim: Callable[[int], int] | None = None) -> None:
        self._trim = _trimmer() if trim is None else trim
        self._freed = 0
        self._timer: asyncio.TimerHandle | None = None

    def freed(self, amount: int) -> None:
        """Count about this many bytes as freed. Once it is worthwhile, memory is given back two seconds later."""
        self._freed += amount
        if self._freed >= _WORTHWHILE_BYTES and self._timer is None and self._trim is not None:
            self._timer = asyncio.get_running_loop().call_later(_QUIET_S, self._give_back)

    def close(self) -> None:
        """Nothing is given back any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _give_back(self) -> None:
        self._timer, self._freed = None, 0
        if self._trim is not None:
            # In a thread: it may take long in a large process, and Python continues meanwhile.
            asyncio.get_running_loop().run_in_executor(None, self._trim, 0)
