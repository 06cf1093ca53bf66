"""Log directories of a broker: what is in them, and moves of its replicas between them. Nested and named as Kafka's."""

from msgspec import Struct

from cluster.model.errors import ErrorCode
from cluster.requests.field_types import AnyBrokerId, ClientItems, Int32, String
from cluster.requests.request import RequestFor


class DescribableLogDirTopic(Struct, frozen=True):
    topic: String
    partitions: ClientItems[Int32]


class DescribeLogDirsRequest(RequestFor["DescribeLogDirsResponse"], frozen=True):
    """`topics` None: all replicas of the broker."""

    topics: ClientItems[DescribableLogDirTopic] | None = None


class DescribedLogDirPartition(Struct, frozen=True):
    """`offset_lag`: what a future replica lacks of the current one; of a current one how far its log end is behind its
    high watermark, which is 0; -1 where it is not known.
    """

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


class DescribedLogDirTopic(Struct, frozen=True):
    name: str
    partitions: tuple[DescribedLogDirPartition, ...]


class DescribedLogDir(Struct, frozen=True):
    """A failed directory has KAFKA_STORAGE_ERROR. `error_message` says how it failed, or why one in service takes no
    records; it is empty if it does. Bytes of its file system are -1 where unknown.
    """

    error_code: ErrorCode
    log_dir: str
    topics: tuple[DescribedLogDirTopic, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    error_message: str = ""


class DescribeLogDirsResponse(Struct, frozen=True):
    """One result for each configured log directory."""

    results: tuple[DescribedLogDir, ...] = ()


class AlterReplicaLogDirTopic(Struct, frozen=True):
    name: String
    partitions: ClientItems[Int32]


class AlterReplicaLogDir(Struct, frozen=True):
    """`path`: the log directory to which the replicas are to be moved."""

    path: String
    topics: ClientItems[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(RequestFor["AlterReplicaLogDirsResponse"], frozen=True):
    dirs: ClientItems[AlterReplicaLogDir]
    validate_only: bool = False


class AlteredReplicaLogDir(Struct, frozen=True):
    """NONE: the replica is there, or the move has begun; REPLICA_NOT_AVAILABLE: there is none, but one that is created
    later will be there.
    """

    partition_index: int
    error_code: ErrorCode
    error_message: str = ""


class AlteredReplicaLogDirTopic(Struct, frozen=True):
    topic_name: str
    partitions: tuple[AlteredReplicaLogDir, ...]


class AlterReplicaLogDirsResponse(Struct, frozen=True):
    results: tuple[AlteredReplicaLogDirTopic, ...] = ()


class OnlineLogDirRequest(RequestFor["OnlineLogDirResponse"], frozen=True):
    """Bring the failed log directory `path` of the broker `broker_id`, which receives this, back into service."""

    broker_id: AnyBrokerId
    path: String
    validate_only: bool = False


class OnlineLogDirResponse(Struct, frozen=True):
    """Replicas that are in service again, that cannot be loaded, and that lack records or may lack some; and logs that
    were deleted, as their replicas are in other directories now. All 0 for a dry run.
    """

    replicas: int = 0
    offline: int = 0
    in_doubt: int = 0
    deleted: int = 0
