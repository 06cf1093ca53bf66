"""Watches the free space of the log directories: a full one takes no records, and takes them again when it has room.

What keeps a replica as it is continues meanwhile, in the room that records leave: truncations, deletions, checkpoints.
A directory that could not even be opened for want of room returns when it has some. Source: klamm; Kafka's broker fails
the directory by the first write that is refused, and ends with the last one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from broker_agent.damage.directory_failures import DirectoryFailures
from broker_agent.decisions.disk_room import DiskRoom, is_short, room_to_try
from broker_agent.log.log_directory import LogDirectory
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.metrics.registry import Gauge
from cluster.model.errors import ClusterError, LogOperationError, StorageError
from cluster.requests.cluster import Finding

FULL_LOG_DIRECTORY: Final = "full_log_directory"
_METRICS: Final = ("klamm.log", "LogDirectory")
_CHECK_S: Final = 1.0
_RETRY_S: Final = 10.0
"""Until a directory is opened again that had room, and could not be opened all the same; and until roles are asked for
again that were refused again.
"""
_ROOM_FOR_ROLES: Final = 1 << 20
_log = structlog.stdlib.get_logger()


class FullDirectories:
    """`run` watches each directory in a task of its own: one whose device hangs does not hold up the others.

    `bring_back` brings a directory back into service that could not be opened.
    """

    def __init__(
        self, manager: ReplicaManager, failures: DirectoryFailures, bring_back: Callable[[str], Awaitable[object]]
    ) -> None:
        self._manager, self._failures, self._bring_back = manager, failures, bring_back
        self._logs = manager.logs
        self._doubts = {path: asyncio.Event() for path in self._logs.directories}
        self._full: set[str] = set()
        """Those that were said to be full."""
        self._gauges = {path: self._gauge("Full", path) for path in self._logs.directories}
        self._reserves = {path: self._gauge("ReservedBytes", path) for path in self._logs.directories}
        self._asked_at = -_RETRY_S
        self._logs.on_doubt = lambda path: self._doubts[path].set()

    def _gauge(self, name: str, path: str) -> Gauge:
        return self._manager.metrics.registry.gauge(*_METRICS, name, logDirectory=path)

    def findings(self) -> Iterator[Finding]:
        """Name the directories that take no records, say why, and what to do."""
        own_id = self._manager.own_id
        for directory in self._logs.directories.values():
            if directory.failure is None and directory.shortage is not None:
                detail = (
                    f"log directory {directory.path} of broker {own_id} is full and takes no records: "
                    f"{directory.shortage}; producers to what it leads are refused, and its followers leave the ISR. "
                    "Make room, and it recovers by itself: 'klamm brokers log-dirs' shows what is in it"
                )
                yield Finding(FULL_LOG_DIRECTORY, detail, broker=own_id)

    async def run(self) -> None:
        """Measure once a second, and whenever there is a doubt, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for path in self._logs.directories:
                group.create_task(self._watch(path), name=f"room in {path}")

    async def _watch(self, path: str) -> None:
        while True:
            self._doubts[path].clear()
            pause_s = await self._check(path)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._doubts[path].wait()

    async def _check(self, path: str) -> float:
        """Check one directory; returns the seconds until the next check."""
        directory = self._logs.directories[path]
        if directory.failure is not None:
            return await self._reopen(directory) if path in self._logs.wait_for_room else _CHECK_S
        try:
            await directory.measure_room()
        except LogOperationError as error:
            _log.warning("Free space of a log directory cannot be measured", directory=path, error=str(error))
        except StorageError:
            return _CHECK_S  # It failed, and reported it.
        self._reserves[path].set(directory.reserve)
        if directory.shortage is not None and path not in self._full:
            self._say_full(directory)
        elif directory.shortage is None and path in self._full:
            self._say_room(directory)
        await self._have_roles_sent(path)
        return _CHECK_S

    def _say_full(self, directory: LogDirectory) -> None:
        self._full.add(directory.path)
        self._gauges[directory.path].set(1)
        here = [p for p in self._manager.online_partitions() if p.log and p.log.directory == directory.path]
        _log.error(
            "Log directory is full: it takes no records until there is room",
            directory=directory.path,
            why=directory.shortage,
            led=sum(partition.is_leader for partition in here),
            followed=sum(not partition.is_leader for partition in here),
        )

    def _say_room(self, directory: LogDirectory) -> None:
        self._full.discard(directory.path)
        self._gauges[directory.path].set(0)
        _log.warning("Log directory has room again", directory=directory.path, free_bytes=directory.room.free)

    async def _have_roles_sent(self, path: str) -> None:
        """Ask the controller again for roles that were refused, once a leader epoch can be written there."""
        now = asyncio.get_running_loop().time()
        if path not in self._manager.without_room or now < self._asked_at + _RETRY_S:
            return
        try:
            size = min(_ROOM_FOR_ROLES, room_to_try(self._logs.directories[path].room.total))
            await self._logs.disk.run(partial(self._logs.disk.check_room, path, size))
        except OSError:
            return
        self._asked_at = now
        self._manager.without_room.discard(path)
        await self._failures.announce()

    async def _reopen(self, directory: LogDirectory) -> float:
        """Bring back a directory that was taken out of service for want of room, if there is some."""
        path, disk = directory.path, self._logs.disk
        if path not in self._failures.taken_out:
            return _CHECK_S
        try:
            room = DiskRoom(*await disk.run(partial(disk.space, path)))
            if is_short(room, directory.reserve_at(room), was_short=True):
                return _CHECK_S
            await disk.run(partial(disk.check_room, path, room_to_try(room.total)))
        except OSError:
            return _CHECK_S
        try:
            await self._bring_back(path)
        except ClusterError as error:
            _log.warning("Log directory has room, and cannot be opened", directory=path, error=str(error))
            return _RETRY_S
        return _CHECK_S
