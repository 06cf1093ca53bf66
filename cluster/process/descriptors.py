"""Divides the limit of open files of this process.

Files and connections draw on the same limit. What is needed beside them is set aside; the rest goes half to log files
and half to connections, so that neither clients nor replicas can take all of it.
"""

import errno
import os
import resource
from collections.abc import Iterator
from typing import Final

import structlog
from msgspec import Struct

from cluster.model.broker import NO_LEADER, BrokerId
from cluster.model.errors import StartupError
from cluster.requests.cluster import Finding

FEW_OPEN_FILES_LEFT: Final = "few_open_files_left"
UNLIMITED: Final = 1 << 20
"""The number that stands for no limit: more descriptors would be of no use."""
_PROCESS: Final = 40
"""The descriptors for standard streams, listeners, event loops, libraries, ZooKeeper, the state-change log."""
_PEERS: Final = 40
"""The descriptors for own connections to controllers and brokers, two for each."""
_METRICS: Final = 48
"""The descriptors for connections of the metrics listener."""
_LEAST: Final = 64
"""The least useful number of descriptors for connections and log files together."""
_AMPLE: Final = 16_384
"""No warning is given from this limit on."""

_SHORT: Final = 16
"""With fewer descriptors left than this, connections and files fail soon: the reserve is being used up."""
_REMEDY: Final = "ulimit -n in the shell, LimitNOFILE= of systemd, --ulimit nofile= of docker"

_log = structlog.stdlib.get_logger()


class DescriptorPlan(Struct, frozen=True):
    """Holds the `limit` of the process, the `log_files` kept open while not in use, and the accepted `connections`."""

    limit: int
    log_files: int
    connections: int


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one, as far as it is permitted; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            _log.info("The soft limit of open files cannot be raised to the hard one", soft=soft, hard=hard)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft in (resource.RLIM_INFINITY, -1) else min(soft, UNLIMITED)


def plan_descriptors(limit: int, *, disk_threads: int = 0, log_files: int | None = None) -> DescriptorPlan:
    """Divide the limit. `disk_threads`: 0 for a process without logs; `log_files`: as configured, None for the half.

    Raises StartupError if nothing would be left.
    """
    # A thread that deletes a directory holds a descriptor for it and one for what is in it.
    left = limit - _PROCESS - _PEERS - _METRICS - 2 * disk_threads
    if left < _LEAST:
        raise StartupError(f"{limit} open files are too few, {limit - left + _LEAST} are needed: {_REMEDY}")
    if disk_threads == 0:
        return DescriptorPlan(limit, 0, left)
    files = min(left // 2 if log_files is None else log_files, left - _LEAST // 2)
    return DescriptorPlan(limit, files, left - files)


def warn_if_low(plan: DescriptorPlan) -> None:
    """Log a warning if the limit of open files is low for what the process may need."""
    if plan.limit < _AMPLE:
        _log.warning(
            "The limit of open files is low",
            limit=plan.limit,
            log_files_at_a_time=plan.log_files,
            connections=plan.connections,
            remedy=f"set it to {_AMPLE} or more: {_REMEDY}",
        )


def few_open_files_left(who: str, broker: BrokerId = NO_LEADER) -> Iterator[Finding]:
    """Report that a process can hardly open any more files. `broker`: -1 for a controller."""
    why = shortage()
    if why is not None:
        yield Finding(FEW_OPEN_FILES_LEFT, f"{who}: {why}", broker=broker)


def shortage() -> str | None:
    """Say why this process can open hardly any more files and connections; None if it can, or if that is not known."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (resource.RLIM_INFINITY, -1):
        return None
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        if error.errno != errno.EMFILE:
            return None
        used = soft
    if soft - used >= _SHORT:
        return None
    return (
        f"{used} files and connections are open of {soft}, so that connections are accepted late or not at all, and "
        f"files fail to open: raise the limit ({_REMEDY}) and restart it, or end the connections"
    )
