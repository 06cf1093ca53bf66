"""Answers DescribeLogDirs: each configured directory with its replicas, its error, and the findings about its replicas.

Source: Kafka ReplicaManager.describeLogDirs; KIP-113, KIP-827.
"""

from collections.abc import Collection, Iterator

from broker_agent.log_damage import DamagedReplica
from broker_agent.ports import Log
from broker_agent.replica_manager import ReplicaManager
from cluster.errors import ErrorCode, StorageError
from cluster.requests.log_dirs import (
    DAMAGED_REPLICA,
    OFFLINE_REPLICA,
    DescribedLogDir,
    DescribedLogDirReplica,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirFinding,
)


class LogDirDescriptions:
    """Answers from memory, but for the space that is left on the disk."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    async def handle(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """One result per configured directory (R11.7)."""
        logs = self._manager.logs
        live = [self._describe(path, request.topics) for path in logs.live_directories]
        # After the live ones: asking for the space may have failed one.
        failed = [
            DescribedLogDir(ErrorCode.KAFKA_STORAGE_ERROR, path, str(error)) for path, error in logs.failures.items()
        ]
        return DescribeLogDirsResponse((*(found for found in live if found is not None), *failed))

    def _describe(self, path: str, topics: Collection[str] | None) -> DescribedLogDir | None:
        """A live directory; None if it has just failed."""
        logs = self._manager.logs
        try:
            total, usable = logs.space(path)
        except StorageError:
            return None
        listed = [
            log
            for log in logs.all_logs().values()
            if log.directory == path and (topics is None or log.topic_partition.topic in topics)
        ]
        return DescribedLogDir(
            ErrorCode.NONE,
            path,
            replicas=tuple(map(_replica, listed)),
            total_bytes=total,
            usable_bytes=usable,
            findings=tuple(self._findings(path)),
        )

    def _findings(self, path: str) -> Iterator[LogDirFinding]:
        logs = self._manager.logs
        for (topic, partition), (directory, why) in logs.unloadable.items():
            if directory == path:
                yield LogDirFinding(OFFLINE_REPLICA, topic, partition, why)
        for replica in logs.damaged_replicas:
            if replica.directory == path:
                if self._has_recovered(replica):
                    logs.forget_damage(replica)
                else:
                    yield LogDirFinding(DAMAGED_REPLICA, *replica.topic_partition, replica.detail)

    def _has_recovered(self, replica: DamagedReplica) -> bool:
        """Whether a follower has fetched again what was missing. A leader has nobody to fetch it from."""
        partition = self._manager.online(replica.topic_partition)
        if partition is None or partition.log is None or partition.is_leader:
            return False
        return partition.log.high_watermark >= replica.damage.to_offset


def _replica(log: Log) -> DescribedLogDirReplica:
    lag = max(log.high_watermark - log.log_end_offset, 0)
    return DescribedLogDirReplica(*log.topic_partition, log.size, lag)
