"""DescribeLogDirs: the log directories of a broker, their replicas, and what is wrong with them."""

from typing import Final

from msgspec import Struct

from cluster.errors import ErrorCode

OFFLINE_REPLICA: Final = "offline_replica"
"""Kind of finding: the log cannot be loaded."""
DAMAGED_REPLICA: Final = "damaged_replica"
"""Kind of finding: records that the log had are missing."""


class DescribeLogDirsRequest(Struct, frozen=True):
    """`topics`: whose replicas are listed; None: all, empty: none. Findings are always listed."""

    topics: tuple[str, ...] | None = None


class DescribedLogDirReplica(Struct, frozen=True):
    """`size` in bytes; `offset_lag`: how far the log ends below its high watermark."""

    topic: str
    partition: int
    size: int
    offset_lag: int = 0


class LogDirFinding(Struct, frozen=True):
    """Something wrong with one replica; `kind` is one of the names above."""

    kind: str
    topic: str
    partition: int
    detail: str


class DescribedLogDir(Struct, frozen=True):
    """KAFKA_STORAGE_ERROR and its message if the directory failed. Sizes of the file system in bytes, -1 if unknown."""

    error_code: ErrorCode
    log_dir: str
    error_message: str = ""
    replicas: tuple[DescribedLogDirReplica, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    findings: tuple[LogDirFinding, ...] = ()


class DescribeLogDirsResponse(Struct, frozen=True):
    """One result per configured directory."""

    results: tuple[DescribedLogDir, ...]
