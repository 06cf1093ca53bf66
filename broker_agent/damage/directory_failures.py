"""Takes a failed log directory out of service while the others are served.

Source: Kafka ReplicaManager.handleLogDirFailure, LogDirFailureHandler; KIP-112; agent rule R11.3.
"""

import asyncio

import structlog

from broker_agent.replica_changes import ReplicaOffline
from broker_agent.replication.log_dir_copies import LogDirCopies
from broker_agent.replication.replica_fetchers import ReplicaFetchers
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.metrics.registry import Gauge
from cluster.model.errors import LogDirectoriesError, OutcomeUnknownError, ZooKeeperError
from cluster.znodes.admin_requests import encode_log_dir_event
from cluster.znodes.paths import LOG_DIR_EVENT_NOTIFICATION
from cluster.zookeeper.port import Create, ZooKeeper, refusal

_log = structlog.stdlib.get_logger()


class DirectoryFailures:
    """Handles directory failures one by one, each once, under the replica state change lock."""

    def __init__(
        self,
        failed: asyncio.Queue[str],
        *,
        manager: ReplicaManager,
        fetchers: ReplicaFetchers,
        copies: LogDirCopies,
        lock: asyncio.Lock,
        zookeeper: ZooKeeper,
    ) -> None:
        self._failed = failed
        self._manager = manager
        self._fetchers, self._copies = fetchers, copies
        self._lock = lock
        self._zookeeper = zookeeper
        self.taken_out: set[str] = set()
        """Failed directories whose partitions are offline by now."""
        self._count = manager.metrics.registry.gauge("kafka.log", "LogManager", "OfflineLogDirectoryCount")
        for directory in manager.logs.live_directories:
            self._offline_gauge(directory).set(0)

    def _offline_gauge(self, directory: str) -> Gauge:
        registry = self._manager.metrics.registry
        return registry.gauge("kafka.log", "LogManager", "LogDirectoryOffline", logDirectory=directory)

    async def run(self) -> None:
        """Process failures until cancelled. Raises LogDirectoriesError if no directory is left, nor one that only waits
        for room: the agent must stop.
        """
        while True:
            directory = await self._failed.get()
            async with self._lock:
                self._take_out(directory)
            if not self._manager.logs.live_directories and not self._manager.logs.wait_for_room:
                errors = "; ".join(f"{path}: {error}" for path, error in self._manager.logs.failures.items())
                raise LogDirectoriesError(f"no log directory is left: {errors}")
            await self.announce()

    def _take_out(self, directory: str) -> None:
        """Mark its partitions offline (P25); waiting requests are completed at once."""
        error = self._manager.logs.failures[directory]
        self.taken_out.add(directory)
        self._count.set(len(self.taken_out))
        self._offline_gauge(directory).set(1)
        topic_ids = {
            partition.topic_partition: partition.log.topic_id
            for partition in self._manager.online_partitions()
            if partition.log is not None and partition.log.directory == directory
        }
        lost = [*topic_ids]
        _log.error(
            "Log directory failed; its partitions are offline",
            directory=directory,
            error=str(error),
            replicas=len(lost),
        )
        self._fetchers.remove(lost)
        self._copies.remove(lost)
        self._copies.detach_lost(directory)
        self._manager.commit(*(ReplicaOffline(tp, f"{directory}: {error}", topic_ids[tp]) for tp in lost))

    def took_back(self, directory: str) -> None:
        """Take note that a directory is in service again."""
        self.taken_out.discard(directory)
        self._count.set(len(self.taken_out))
        self._offline_gauge(directory).set(0)

    async def announce(self) -> None:
        """Notify the controller of a directory that has failed or is back: it asks which replicas are affected
        (R11.3 step 9).
        """
        znode = Create(
            f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_", encode_log_dir_event(self._manager.own_id), sequential=True
        )
        while True:
            try:
                created = (await self._zookeeper.multi([znode]))[0]
                if not created.ok:
                    raise refusal(f"{LOG_DIR_EVENT_NOTIFICATION} cannot get a child", created.error)
            except OutcomeUnknownError:
                continue  # Told twice does no harm, told never does.
            except ZooKeeperError as error:
                # The next registration makes the controller send LeaderAndIsr, whose response tells the same.
                _log.warning("Notifying the controller of a log directory failed", error=str(error))
            return
