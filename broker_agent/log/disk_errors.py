"""Which errors of the operating system are errors of the disk, and which of the process or of what it was asked.

An error of the disk takes the log directory out of service. Any other fails one operation: the files are intact, and
the next operation, of this or another log, may succeed. So does a full disk, which is not a broken one: what was not
written was not acknowledged. Source: errno(3), KIP-112; Kafka takes every IOException for a failure of the directory.
"""

import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_RAISE_FILE_LIMIT: Final = (
    "raise the limit of open files (ulimit -n; LimitNOFILE= of a systemd unit) or close connections"
)
_RETRY: Final = "it is tried again; if it persists, restart the broker"
WANT_OF_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""No space is left, or no inode, or none of the quota of the user or project."""

REMEDIES: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.EMFILE: _RAISE_FILE_LIMIT,
        errno.ENFILE: "raise the machine's limit of open files (sysctl fs.file-max)",
        errno.ENOMEM: "the machine is out of memory: stop other programs or add memory",
        errno.ENOBUFS: "the machine is out of memory: stop other programs or add memory",
        errno.ENOLCK: "the machine is out of file locks",
        errno.ENOSPC: "make room: delete topics or records, move replicas away, or enlarge the file system",
        errno.EDQUOT: "raise the quota of the user or project that the broker runs as, or make room",
        errno.EFBIG: "raise the limit of the size of a file (ulimit -f), or lower log.segment.bytes",
        errno.ENAMETOOLONG: "shorten the name of the topic, or the path of the log directory",
        errno.EILSEQ: "the file system does not permit this name",
        errno.EINVAL: "the file system does not permit this operation or name",
        errno.EOPNOTSUPP: "the file system does not permit this operation",
        errno.ENOSYS: "the kernel does not know this operation",
        errno.EOVERFLOW: "the number is too large for this system",
        errno.EAGAIN: _RETRY,
        errno.EINTR: _RETRY,
        errno.ETXTBSY: _RETRY,
        errno.EDEADLK: _RETRY,
        errno.EBADF: _RETRY,
        errno.EFAULT: _RETRY,
        errno.E2BIG: _RETRY,
        errno.ERANGE: _RETRY,
        errno.EDOM: _RETRY,
    }
)
"""Errors that are not the disk's, each with what to do. Any other errno, or none, is an error of the disk."""


def is_error_of_disk(error: OSError) -> bool:
    """Whether the log directory fails by it."""
    return error.errno not in REMEDIES


def is_want_of_room(error: OSError) -> bool:
    """Whether the disk is full, and nothing else is wrong with it."""
    return error.errno in WANT_OF_ROOM


def lost_writes(error: OSError, path: str) -> OSError:
    """The error of a flush, which is always one of the disk unless the process is to blame: the kernel forgets what it
    could not write, so that the next flush succeeds although records are lost. A want of room shows here where the file
    system promises space that it does not have, as NFS and thin volumes do.
    """
    if is_want_of_room(error):
        return OSError(errno.EIO, f"what was written could not be flushed: {error.strerror}", path)
    error.filename = path
    return error


def describe(error: OSError) -> str:
    """The error with its errno and file, and what to do about it if it is not the disk's."""
    remedy = REMEDIES.get(error.errno or 0)
    return str(error) if remedy is None else f"{error}; {remedy}"
