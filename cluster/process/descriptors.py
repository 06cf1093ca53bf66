"""The limit of open files of this process, and what it is divided into.

Files and connections draw on the same limit. What is needed beside them is set aside; the rest goes half to log files
and half to connections, so that neither clients nor replicas can take all of it.
"""

import resource
from typing import Final

import structlog
from msgspec import Struct

from cluster.errors import StartupError

UNLIMITED: Final = 1 << 20
"""What stands for no limit: more descriptors would be of no use."""
_PROCESS: Final = 40
"""Standard streams, listeners, event loops, libraries, ZooKeeper, the state-change log."""
_PEERS: Final = 40
"""Own connections to controllers and brokers, two for each."""
_METRICS: Final = 48
"""Connections of the metrics listener."""
_LEAST: Final = 64
"""Fewer than this for connections and log files together are of no use."""
_AMPLE: Final = 16_384
"""No warning is given from this limit on."""

_REMEDY: Final = "ulimit -n in the shell, LimitNOFILE= of systemd, --ulimit nofile= of docker"

_log = structlog.stdlib.get_logger()


class DescriptorPlan(Struct, frozen=True):
    """`limit` of the process; `log_files`: kept open while they are not in use; `connections`: accepted from others."""

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
    if plan.limit < _AMPLE:
        _log.warning(
            "The limit of open files is low",
            limit=plan.limit,
            log_files_at_a_time=plan.log_files,
            connections=plan.connections,
            remedy=f"set it to {_AMPLE} or more: {_REMEDY}",
        )
