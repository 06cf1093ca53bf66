"""Carries out role changes of a LeaderAndIsr request: log I/O first, many partitions at a time, then the change.

The caller holds the replica state change lock. A partition's role change itself is one synchronous step, made as soon
as its own disk I/O is done. Source: Kafka ReplicaManager.makeLeaders, makeFollowers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog
from msgspec import Struct, field

from broker_agent.damage.damaged_replicas import DamagedReplicas
from broker_agent.log.config import LogConfig
from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replica_changes import ReplicaOffline, ReplicaRemoved, RoleTaken
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.log_reconciliation import LeaderEndPoint
from broker_agent.replication.replica_fetchers import FetchStart, ReplicaFetchers
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.topic_configs import TopicConfigs
from cluster.model.broker import Offset, TopicId
from cluster.model.errors import (
    ErrorCode,
    FullDirectoryError,
    LogAppendError,
    LogOperationError,
    StorageError,
    ZooKeeperError,
)
from cluster.model.partition import TopicPartition
from cluster.requests.control import LeaderAndIsrPartitionState
from state_log.record import Cause

_CONCURRENCY: Final = 512
"""Limit of partitions whose roles are being changed: as many as fill the groups in which the disk works."""
_STEPS_BETWEEN_YIELDS: Final = 64
_NAMED_IN_LOG: Final = 10
_NOT_TAKEN: Final = "Replicas could not take their roles, and try again at the next request"
_OFFLINE: Final = "Replicas are offline: their log directory or their log cannot be used"
_log = structlog.stdlib.get_logger()


class BecomeLeaderOrFollower(Struct, frozen=True):
    """One accepted partition state, its hosted partition, and what led to it."""

    partition: HostedPartition
    topic_id: TopicId | None
    state: LeaderAndIsrPartitionState
    cause: Cause


class RoleChangeResult(Struct):
    """The results, filled in as role changes complete.

    `taken`: the roles that were taken; `failures`: codes other than NONE.
    """

    taken: list[RoleTaken] = field(default_factory=list)
    failures: dict[TopicPartition, ErrorCode] = field(default_factory=dict)


class RoleChanges:
    """Makes leaders and followers of hosted partitions."""

    def __init__(
        self, manager: ReplicaManager, fetchers: ReplicaFetchers, configs: TopicConfigs, damaged: DamagedReplicas
    ) -> None:
        self._manager = manager
        self._fetchers = fetchers
        self._configs = configs
        self._damaged = damaged

    async def make_leaders(
        self, orders: Sequence[BecomeLeaderOrFollower], logs: "LogsOfRequest", outcome: RoleChangeResult
    ) -> None:
        """Become leader of these partitions (R3.1). All their fetchers stop before the first role change."""
        silent_ms = {tp: self._fetchers.silent_ms(tp) for tp in (order.partition.topic_partition for order in orders)}
        self._fetchers.remove(silent_ms)

        async def lead(order: BecomeLeaderOrFollower) -> None:
            await self._lead(order, logs, outcome, silent_ms[order.partition.topic_partition])

        await self._for_each(orders, lead, outcome)

    async def make_followers(
        self,
        orders: Sequence[BecomeLeaderOrFollower],
        logs: "LogsOfRequest",
        outcome: RoleChangeResult,
        *,
        is_stopping: bool,
    ) -> None:
        """Become follower of these partitions (R3.2). Fetching starts at the log end once all old fetchers have
        stopped.
        """

        async def follow(order: BecomeLeaderOrFollower) -> None:
            await self._follow(order, logs, outcome)

        try:
            await self._for_each(orders, follow, outcome)
        finally:
            # Also after an unexpected failure of one of them: for the others a repeated request would not be newer.
            if not is_stopping:
                taken = (role for role in outcome.taken if role.follows_anew)
                self._fetchers.add({role.topic_partition: self._fetch_start(role) for role in taken})

    async def _lead(
        self, order: BecomeLeaderOrFollower, logs: "LogsOfRequest", outcome: RoleChangeResult, silent_ms: int | None
    ) -> None:
        """Become leader, unless the request is older or the log cannot be opened (R3.3 to R3.7)."""
        partition, state = order.partition, order.state
        if state.partition_epoch < partition.partition_epoch:
            return
        with partition.changing_role():
            log = await logs.attach(order)
            if log is None:
                return
            taken = _taken(order, log, silent_ms=silent_ms)
            epoch_start: Offset | None = None
            if state.leader_epoch > partition.leader_epoch:
                self._damaged.led(partition.topic_partition)
                epoch_start = log.log_end_offset
                if log.durable_end_offset < epoch_start:
                    await log.flush()
                await log.begin_leader_epoch(state.leader_epoch, epoch_start)
                assert log.log_end_offset == epoch_start, f"{partition.topic_partition} grew during its election"
            partition.unrecorded_role = taken
            partition.make_leader(state, epoch_start_offset=epoch_start, now_ms=self._manager.now_ms())
        self._manager.on_role_changed(partition)
        self._manager.advance(partition)
        outcome.taken.append(taken)

    async def _follow(self, order: BecomeLeaderOrFollower, logs: "LogsOfRequest", outcome: RoleChangeResult) -> None:
        partition, state = order.partition, order.state
        tp = partition.topic_partition
        if self._manager.metadata.endpoint(state.leader) is None:
            # The log is created all the same, so that its high watermark is checkpointed.
            _log.error("Cannot follow a leader that is not live", partition=str(tp), leader=state.leader)
            await logs.attach(order)
            return
        if state.partition_epoch < partition.partition_epoch:
            return
        log = await logs.attach(order)
        if log is None:
            # The epoch is unchanged, so that a repeated request, as after the next registration, counts as new. Kafka
            # updates the epoch here already, and has no replica until the next election.
            return
        follows_anew = state.leader_epoch > partition.leader_epoch
        if follows_anew:
            # In the same step: nothing fetched under the old epoch is appended under the new one.
            self._fetchers.remove((tp,))
            self._damaged.followed(log, state, order.cause)
        outcome.taken.append(_taken(order, log, follows_anew=follows_anew))
        partition.make_follower(state)
        self._manager.on_role_changed(partition)

    def _fetch_start(self, role: RoleTaken) -> FetchStart:
        """Start fetching at the log end if the leader can compare its latest epoch, else at the high watermark."""
        partition = self._manager.online(role.topic_partition)
        log = None if partition is None else partition.log
        endpoint = self._manager.metadata.endpoint(role.state.leader)
        assert log is not None, f"{role.topic_partition} has no log"
        assert endpoint is not None, f"broker {role.state.leader} died within one step"
        by_fetch = self._manager.settings.klamm_replica_truncation_mode == "fetch"
        from_end = by_fetch and log.latest_epoch is not None
        return FetchStart(
            topic_id=role.topic_id,
            leader=LeaderEndPoint(role.state.leader, endpoint),
            leader_epoch=role.state.leader_epoch,
            offset=log.log_end_offset if from_end else log.high_watermark,
            latest_epoch=log.latest_epoch,
            cause=role.cause,
        )

    async def _for_each(
        self,
        orders: Sequence[BecomeLeaderOrFollower],
        work: Callable[[BecomeLeaderOrFollower], Awaitable[None]],
        outcome: RoleChangeResult,
    ) -> None:
        """Run `work` for all requests, with limited concurrency; expected failures become codes.

        An unexpected one is raised after the others are done: nothing runs on after the lock is released.
        """
        rest, refused = iter(orders), _RefusedRoles()

        async def worker() -> None:
            for step, order in enumerate(rest):
                if step % _STEPS_BETWEEN_YIELDS == _STEPS_BETWEEN_YIELDS - 1:
                    await asyncio.sleep(0)
                tp = order.partition.topic_partition
                try:
                    await work(order)
                except LogOperationError as error:
                    # Offline for the controller, which elects another leader; here, as after a restart, not hosted
                    # until the next request, which tries again.
                    refused.add(tp, error)
                    outcome.failures[tp] = ErrorCode.KAFKA_STORAGE_ERROR
                    self._fetchers.remove((tp,))
                    self._manager.commit(ReplicaRemoved(tp))
                    if isinstance(error, FullDirectoryError):
                        self._manager.without_room.add(error.directory)
                except StorageError as error:
                    refused.add(tp, error)
                    outcome.failures[tp] = ErrorCode.KAFKA_STORAGE_ERROR
                    self._fetchers.remove((tp,))
                    self._manager.commit(ReplicaOffline(tp))
                except LogAppendError as error:
                    _log.warning("Log refused a role change", partition=str(tp), why=error.why)
                    outcome.failures[tp] = error.code

        workers = min(_CONCURRENCY, len(orders))
        results = await asyncio.gather(*(worker() for _ in range(workers)), return_exceptions=True)
        refused.log()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def logs_of_request(self, orders: Sequence[BecomeLeaderOrFollower]) -> "LogsOfRequest":
        """Prepare opening logs: read the configs of all topics that need one, in one batch (R3.12)."""
        topics = sorted({o.partition.topic_partition.topic for o in orders if o.partition.log is None})
        try:
            configs = await self._configs.read(topics)
        except ZooKeeperError as error:
            _log.warning("Reading topic configs failed; logs are not opened", topics=len(topics), error=str(error))
            configs = {}
        return LogsOfRequest(self._manager.logs, configs)


class _RefusedRoles:
    """The replicas of one request that could not take their role, by log directory: one line of the log for each."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, bool], list[tuple[TopicPartition, StorageError]]] = {}

    def add(self, tp: TopicPartition, error: StorageError) -> None:
        self._of.setdefault((error.directory, isinstance(error, LogOperationError)), []).append((tp, error))

    def log(self) -> None:
        for (directory, is_tried_again), refused in self._of.items():
            _log.error(
                _NOT_TAKEN if is_tried_again else _OFFLINE,
                directory=directory,
                replicas=len(refused),
                partitions=[str(tp) for tp, _ in refused[:_NAMED_IN_LOG]],
                error=str(refused[0][1]),
            )


def _taken(
    order: BecomeLeaderOrFollower, log: PartitionLog, *, follows_anew: bool = False, silent_ms: int | None = None
) -> RoleTaken:
    offsets = log.high_watermark, log.log_end_offset
    tp, minimum = order.partition.topic_partition, log.config.min_insync_replicas
    return RoleTaken(tp, order.topic_id, order.state, order.cause, *offsets, minimum, follows_anew, silent_ms)


class LogsOfRequest:
    """Attaches logs to partitions within one request; each directory's checkpoint is read at most once (R2.7)."""

    def __init__(self, directories: LogDirectories, configs: Mapping[str, LogConfig]) -> None:
        self._directories = directories
        self._configs = configs
        self._checkpoints: dict[str, Mapping[TopicPartition, Offset]] = {}
        self._reading = asyncio.Lock()

    async def attach(self, order: BecomeLeaderOrFollower) -> PartitionLog | None:
        """The partition's log, opened or created if it has none yet (R3.11); None if its config is unknown.

        Raises StorageError; LogAppendError(INCONSISTENT_TOPIC_ID) for a log that has another topic id.
        """
        partition = order.partition
        if partition.log is None:
            config = self._configs.get(partition.topic_partition.topic)
            if config is None:
                return None
            log = await self._directories.get_or_create(
                partition.topic_partition, topic_id=order.topic_id, is_new=order.state.is_new, config=config
            )
            log.config = config
            checkpoint = await self._checkpoint(log.directory)
            log.set_high_watermark(checkpoint.get(partition.topic_partition, Offset(0)))
            cut_to = log.drop_epochs_above(order.state.leader_epoch)
            if cut_to is not None:
                tp, known = str(partition.topic_partition), order.state.leader_epoch
                _log.error("Cut batches of leader epochs that never were", partition=tp, to=cut_to, newest_epoch=known)
            partition.log = log
        if order.topic_id is not None and partition.log.topic_id is None:
            partition.log.set_topic_id(order.topic_id)
        return partition.log

    async def _checkpoint(self, directory: str) -> Mapping[TopicPartition, Offset]:
        async with self._reading:
            if directory not in self._checkpoints:
                self._checkpoints[directory] = await self._directories.read_high_watermarks(directory)
            return self._checkpoints[directory]
