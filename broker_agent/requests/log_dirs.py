"""DescribeLogDirs; AlterReplicaLogDirs, which begins to move replicas to other log directories of this broker; and
OnlineLogDir, which brings a failed one back into service.

Source: Kafka ReplicaManager.describeLogDirs, alterReplicaLogDirs; KIP-113; klamm for the last one.
"""

import os
from collections.abc import Iterator, Mapping, Set
from typing import Final

import structlog

from broker_agent.damage.directory_returns import DirectoryReturns
from broker_agent.decisions.log_dirs import DirectoryMove, MovableReplica, plan_directory_move
from broker_agent.log.directory_names import fits_future_name
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replica_changes import ALTERED, ReplicaMoveStarted
from broker_agent.replication.log_dir_copier import directory_move
from broker_agent.replication.log_dir_copies import LogDirCopies
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.control import ControlRequests
from cluster.model.errors import ApiError, ErrorCode, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.log_dirs import (
    AlteredReplicaLogDir,
    AlteredReplicaLogDirTopic,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribedLogDir,
    DescribedLogDirPartition,
    DescribedLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    OnlineLogDirRequest,
    OnlineLogDirResponse,
)

_UNKNOWN_LAG: Final = -1
_Wanted = Mapping[str, Set[int]] | None
_log = structlog.stdlib.get_logger()


class LogDirRequests:
    """Describes the log directories, changes where replicas are, and brings a directory back."""

    def __init__(
        self, manager: ReplicaManager, copies: LogDirCopies, control: ControlRequests, returns: DirectoryReturns
    ) -> None:
        self._manager, self._copies, self._control, self._returns = manager, copies, control, returns
        self._configured = {os.path.abspath(path): path for path in manager.logs.directories}

    async def describe(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Describe every configured directory, with the replicas of the chosen partitions (R11.7)."""
        chosen: _Wanted = None
        if request.topics is not None:
            wanted: dict[str, set[int]] = {}
            for topic in request.topics:
                wanted.setdefault(topic.topic, set()).update(topic.partitions)
            chosen = wanted
        described = [await self._describe(shown, path, chosen) for shown, path in self._configured.items()]
        return DescribeLogDirsResponse(tuple(described))

    async def _describe(self, shown: str, path: str, chosen: _Wanted) -> DescribedLogDir:
        try:
            total, usable = await self._manager.logs.space(path)
        except StorageError as error:
            return DescribedLogDir(ErrorCode.KAFKA_STORAGE_ERROR, shown, error_message=error.why)
        topics: dict[str, list[DescribedLogDirPartition]] = {}
        for tp, log, is_future in sorted(self._logs_in(path), key=lambda found: (found[0], found[2])):
            if chosen is None or tp.partition in chosen.get(tp.topic, frozenset()):
                lag = self._lag(tp, log, is_future=is_future)
                replica = DescribedLogDirPartition(tp.partition, log.size, lag, is_future)
                topics.setdefault(tp.topic, []).append(replica)
        found = tuple(DescribedLogDirTopic(topic, tuple(replicas)) for topic, replicas in topics.items())
        shortage = self._manager.logs.directories[path].shortage
        why = "" if shortage is None else f"full: {shortage}"
        return DescribedLogDir(ErrorCode.NONE, shown, found, total, usable, why)

    def _logs_in(self, path: str) -> Iterator[tuple[TopicPartition, PartitionLog, bool]]:
        logs = self._manager.logs
        for is_future, table in ((False, logs.all_logs()), (True, logs.futures.all)):
            yield from ((tp, log, is_future) for tp, log in table.items() if log.directory == path)

    def _lag(self, tp: TopicPartition, log: PartitionLog, *, is_future: bool) -> int:
        """Return how far the log is behind the high watermark, or a copy behind the log; unknown without a role."""
        partition = self._manager.online(tp)
        current = None if partition is None else partition.log
        if current is None:
            return _UNKNOWN_LAG
        if is_future:
            return current.log_end_offset - log.log_end_offset
        return max(current.high_watermark - log.log_end_offset, 0)

    async def online(self, request: OnlineLogDirRequest) -> OnlineLogDirResponse:
        """Bring a failed directory back into service, to the end even if the sender disconnects. Raises ApiError."""
        own_id = self._manager.own_id
        if request.broker_id != own_id:
            message = f"this is broker {own_id}"
            raise ApiError(ErrorCode.INVALID_REQUEST, message, field="broker_id", value=request.broker_id)
        path = self._own_path(request.path)
        if request.validate_only:
            await self._returns.check(path)
            return OnlineLogDirResponse()
        return await self._control.to_the_end(lambda: self._returns.bring_back(path))

    async def alter(self, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        """Begin to move each replica to the directory that is named with it; replicas are independent (R11.8).

        Carried out to the end even if the sender disconnects: a copy that nobody knows would be in the way of the next.
        """
        return await self._control.to_the_end(lambda: self._alter_all(request))

    async def _alter_all(self, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        results: dict[str, list[AlteredReplicaLogDir]] = {}
        async with self._control.lock:
            for wanted in request.dirs:
                for topic in wanted.topics:
                    for number in topic.partitions:
                        tp = TopicPartition(topic.name, number)
                        code, why = await self._alter(tp, wanted.path, validate_only=request.validate_only)
                        results.setdefault(topic.name, []).append(AlteredReplicaLogDir(number, code, why))
        self._copies.stop_idle()
        topics = (AlteredReplicaLogDirTopic(name, tuple(partitions)) for name, partitions in results.items())
        return AlterReplicaLogDirsResponse(tuple(topics))

    async def _alter(self, tp: TopicPartition, path: str, *, validate_only: bool) -> tuple[ErrorCode, str]:
        target = self._own_path(path)
        plan = self._plan(tp, target)
        if not validate_only:
            try:
                await self._carry_out(tp, target, plan)
            except StorageError as error:
                _log.warning("Replica is not moved to another log directory", partition=str(tp), to=path, why=error.why)
                return error.code, str(error)
        elif plan.begins_copy and self._manager.logs.failures:
            return ErrorCode.KAFKA_STORAGE_ERROR, _explain_failures(self._manager.logs.failures)
        return plan.code, self._explain(plan.code, tp, path)

    def _own_path(self, path: str) -> str:
        """The configured log directory of that absolute path; the path itself if there is none."""
        return self._configured.get(os.path.normpath(path), path)

    def _plan(self, tp: TopicPartition, target: str) -> DirectoryMove:
        logs, partition = self._manager.logs, self._manager.online(tp)
        current, future = logs.get(tp), logs.futures.get(tp)
        return plan_directory_move(
            MovableReplica(
                target=target,
                is_log_dir=target in logs.directories,
                is_failed=target in logs.failures,
                fits_name=fits_future_name(tp),
                is_offline=self._manager.is_offline(tp),
                is_hosted=partition is not None and partition.log is not None,
                directory=None if current is None else current.directory,
                moves_to=None if future is None else future.directory,
            )
        )

    async def _carry_out(self, tp: TopicPartition, target: str, plan: DirectoryMove) -> None:
        """Do what the plan says, in its order. Raises StorageError."""
        logs, partition = self._manager.logs, self._manager.online(tp)
        if plan.ends_move:
            if partition is None:
                self._copies.remove((tp,))
            else:
                self._copies.abandon(partition, ALTERED)
            await logs.delete_future(tp)
        if plan.is_preferred:
            logs.futures.preferred[tp] = target
        if plan.begins_copy:
            future = await logs.create_future(tp, target)
            _log.info("Replica is being moved to another log directory", partition=str(tp), to=target)
            self._manager.commit(ReplicaMoveStarted(directory_move(logs.all_logs()[tp], future)))
        if partition is not None:
            # Also of one that has given up: asking again is what a person tries.
            self._copies.resume((partition,))

    def _explain(self, code: ErrorCode, tp: TopicPartition, path: str) -> str:
        own = self._manager.own_id
        match code:
            case ErrorCode.INVALID_TOPIC_EXCEPTION:
                return f"the name of {tp} is too long for that of a copy in another directory"
            case ErrorCode.LOG_DIR_NOT_FOUND:
                return f"{path} is no log directory of broker {own}, which has {', '.join(self._configured)}"
            case ErrorCode.KAFKA_STORAGE_ERROR:
                what = f"{tp} is offline" if self._manager.is_offline(tp) else f"{path} has failed"
                return f"{what} on broker {own}: 'klamm cluster health' says why"
            case ErrorCode.REPLICA_NOT_AVAILABLE:
                return f"broker {own} has no replica of {tp}; one that it gets later will be in {path}"
            case _:
                return ""


def _explain_failures(failures: Mapping[str, OSError]) -> str:
    return "; ".join(f"log directory {path} failed: {error}" for path, error in failures.items())
