"""What a request to move a replica to another log directory leads to.

Source: Kafka ReplicaManager.alterReplicaLogDirs; KIP-113.
"""

from msgspec import Struct

from cluster.model.errors import ErrorCode


class MovableReplica(Struct, frozen=True, kw_only=True):
    """What the broker knows of the partition and of the directory `target`, which may be none of its own.

    `is_hosted`: the partition has a role here, and a log. `directory`: of its current log, None without one.
    `moves_to`: that of the copy which is being made, None without one.
    """

    target: str
    is_log_dir: bool
    is_failed: bool
    fits_name: bool
    is_offline: bool
    is_hosted: bool
    directory: str | None
    moves_to: str | None


class DirectoryMove(Struct, frozen=True):
    """The answer, and what is to be done first, in this order. `ends_move`: the copy elsewhere is given up;
    `is_preferred`: the target is remembered for when the log is created; `begins_copy`: one is made in the target.
    """

    code: ErrorCode
    ends_move: bool = False
    is_preferred: bool = False
    begins_copy: bool = False


def plan_directory_move(replica: MovableReplica) -> DirectoryMove:
    """The first case of R11.8 that applies. A refusal changes nothing; only REPLICA_NOT_AVAILABLE remembers."""
    if not replica.fits_name:
        return DirectoryMove(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not replica.is_log_dir:
        return DirectoryMove(ErrorCode.LOG_DIR_NOT_FOUND)
    if replica.is_failed or replica.is_offline:
        return DirectoryMove(ErrorCode.KAFKA_STORAGE_ERROR)
    ends_move = replica.moves_to not in (None, replica.target)
    if replica.directory == replica.target and replica.is_hosted:
        return DirectoryMove(ErrorCode.NONE, ends_move)
    is_preferred = replica.directory != replica.target
    if not replica.is_hosted:
        return DirectoryMove(ErrorCode.REPLICA_NOT_AVAILABLE, ends_move, is_preferred)
    return DirectoryMove(ErrorCode.NONE, ends_move, is_preferred, begins_copy=replica.moves_to != replica.target)
