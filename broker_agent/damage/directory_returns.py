"""Brings a log directory back into service that has failed, while the process runs.

Its logs are opened and recovered as at a start. What the disk may have lost is named to the controller before a replica
has a role again, so that others in sync lead; then the controller is asked to send the roles. A replica that was
created in another directory meanwhile stays there. Source: klamm; Kafka's broker has to be restarted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import structlog

from broker_agent.damage.damaged_replicas import DamagedReplicas
from broker_agent.damage.directory_failures import DirectoryFailures
from broker_agent.log import checkpoints
from broker_agent.log.config import LogConfig
from broker_agent.log.disk_errors import describe, is_want_of_room
from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replica_changes import ReplicaBack, ReplicaOffline
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.model.errors import ApiError, ErrorCode, StartupError, ZooKeeperError
from cluster.requests.log_dirs import OnlineLogDirResponse

_ROOM_TO_TRY: Final = 4096
_LOST: Final = "the log directory had failed"
_NOT_THE_SAME: Final = (
    f"it has no {checkpoints.META_PROPERTIES} any more: the disk is not mounted, or another one is in its place. Mount "
    "the disk; to use an empty one instead, restart the broker, which tells the controller what is gone with the other"
)
_log = structlog.stdlib.get_logger()


class DirectoryReturns:
    """`lock`: the replica state change lock; `read_configs`: reads the configs of all topics that have some."""

    def __init__(
        self,
        manager: ReplicaManager,
        failures: DirectoryFailures,
        damaged: DamagedReplicas,
        *,
        lock: asyncio.Lock,
        read_configs: Callable[[], Awaitable[Mapping[str, LogConfig]]],
    ) -> None:
        self._manager, self._failures, self._damaged = manager, failures, damaged
        self._lock, self._read_configs = lock, read_configs
        self._logs = manager.logs
        self._returning: set[str] = set()

    async def check(self, path: str) -> None:
        """Raise ApiError if the directory is none of this broker, or in service, or still fails."""
        own_id = self._manager.own_id
        directory = self._logs.directories.get(path)
        if directory is None:
            configured = ", ".join(self._logs.directories)
            why = f"{path} is no log directory of broker {own_id}, which has {configured}"
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, why, field="path", value=path)
        if directory.failure is None:
            why = f"log directory {path} of broker {own_id} is in service"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, field="path", value=path)
        if path in self._returning:
            why = f"log directory {path} of broker {own_id} is being brought back already"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, field="path", value=path)
        if path not in self._failures.taken_out or directory.users:
            busy = f"{directory.users} operations in it have not ended; try again, or restart the broker"
            raise self._refusal(path, busy)
        try:
            has_identity = await self._logs.disk.run(partial(self._try, path))
        except OSError as error:
            raise self._refusal(path, describe(error)) from None
        if directory.was_identified and not has_identity:
            raise self._refusal(path, _NOT_THE_SAME)

    def _try(self, path: str) -> bool:
        """Read and write in the directory; returns whether it has an identity. Blocks; raises OSError."""
        disk = self._logs.disk
        disk.list_directory(path)
        has_identity = disk.read_file(f"{path}/{checkpoints.META_PROPERTIES}") is not None
        try:
            disk.check_room(path, _ROOM_TO_TRY)
        except OSError as error:
            if not is_want_of_room(error):  # A full one can be brought back.
                raise
        disk.sync_directory(path)
        return has_identity

    async def bring_back(self, path: str) -> OnlineLogDirResponse:
        """Bring a directory back. Raises ApiError as `check` does, and if its logs cannot be opened; then nothing has
        changed.
        """
        await self.check(path)
        self._returning.add(path)
        try:
            staged = await self._open(path)
            superseded = await self._adopt(path, staged)
            await self._damaged.until_answered(staged.all_logs())
            returned = await self._give_back(path, superseded)
        finally:
            self._returning.discard(path)
        await self._failures.announce()
        return returned

    async def _open(self, path: str) -> LogDirectories:
        failure = self._logs.failures[path]
        try:
            configs = await self._read_configs()
            return await self._logs.reopen(path, configs, "" if is_want_of_room(failure) else _LOST)
        except (StartupError, ZooKeeperError) as error:
            raise self._refusal(path, str(error)) from error

    async def _adopt(self, path: str, staged: LogDirectories) -> list[PartitionLog]:
        """Let its logs be known, and none have a role before the controller knows what it may lack."""
        async with self._lock:
            for error in staged.failures.values():
                raise self._refusal(path, str(error))
            superseded = await self._logs.adopt(staged)
            self._failures.taken_out.discard(path)
            known = [tp for tp in staged.all_logs() if self._manager.online(tp) is None]
            self._manager.commit(*(ReplicaOffline(tp) for tp in known))
        self._check_in_service(path)
        found = [replica for replica in self._logs.damaged_replicas if replica.directory == path]
        newly = [replica for replica in staged.newly_damaged if replica in found]
        self._damaged.add_known(newly, found)
        return superseded

    async def _give_back(self, path: str, superseded: list[PartitionLog]) -> OnlineLogDirResponse:
        """Let the replicas have roles again; those that may be in another failed directory stay offline."""
        async with self._lock:
            self._check_in_service(path)
            logs, all_there = self._logs, not self._logs.failures
            offline = [*self._manager.offline_partitions()]
            back = [tp for tp in offline if tp not in logs.unloadable and (all_there or logs.has(tp))]
            self._manager.commit(*(ReplicaBack(tp) for tp in back))
            self._failures.took_back(path)
        replicas = sum(log.directory == path for log in logs.all_logs().values())
        unloadable = logs.unloadable_in(path)
        doubts = sum(replica.directory == path for replica in logs.damaged_replicas)
        _log.warning(
            "Log directory is in service again",
            directory=path,
            replicas=replicas,
            offline=unloadable,
            in_doubt=doubts,
            deleted=[log.path for log in superseded],
        )
        return OnlineLogDirResponse(replicas, unloadable, doubts, len(superseded))

    def _check_in_service(self, path: str) -> None:
        error = self._logs.failures.get(path)
        if error is not None:
            raise self._refusal(path, f"it has failed again: {error}")

    def _refusal(self, path: str, why: str) -> ApiError:
        message = f"log directory {path} of broker {self._manager.own_id} stays out of service: {why}"
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message, field="path", value=path)
