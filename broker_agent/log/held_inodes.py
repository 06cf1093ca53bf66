"""Keeps a file in the kernel's memory without a descriptor.

A failed write-back is remembered with the inode, and reported to whoever calls fsync next, unless the inode was dropped
from memory meanwhile. A mapping of the file prevents that, and counts as no open file. Tried on Linux 6.18 with ext4 on
a failing device: after the file was closed and its inode dropped, fsync by a new descriptor succeeded although the data
was lost; with a mapping it failed. Not by the module `mmap`, which duplicates the descriptor.
"""

import ctypes
import mmap
import os
from typing import Final

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
    """Keep the file's inode until `release_inode` of what is returned. Raises OSError, as with too many mappings."""
    address = _LIBC.mmap(None, mmap.PAGESIZE, _PROT_NONE, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED or address is None:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(address)


def release_inode(address: int) -> None:
    _LIBC.munmap(address, mmap.PAGESIZE)
