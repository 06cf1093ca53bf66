"""The partitions an agent hosts: lookups, changes, high watermarks, ISR changes.

Requests are handled in `broker_agent.requests`, which share this state. Source: Kafka ReplicaManager.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random

import structlog

from broker_agent.agent_metrics import AgentMetrics
from broker_agent.decisions.data_requests import validate_leader_epoch
from broker_agent.decisions.isr import IsrAnswer, IsrProposal
from broker_agent.decisions.read_replica import reads_to_log_end
from broker_agent.log.log_directories import LogDirectories
from broker_agent.metadata_cache import MetadataCache
from broker_agent.replica_changes import (
    IsrCommitted,
    LogTruncated,
    ReplicaBack,
    ReplicaChange,
    ReplicaMoved,
    ReplicaOffline,
    ReplicaRemoved,
    ReplicaStopped,
    RoleTaken,
    record_of,
)
from broker_agent.replication.fetch_sessions import FetchSession, FetchSessions
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.isr_proposals import IsrProposals
from broker_agent.replication.purgatory import Purgatory
from broker_agent.replication.replication_quota import ReplicationQuota, ThrottledSide
from cluster.config.settings import Settings
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode, FullDirectoryError, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionResult
from cluster.requests.data import FetchRequest
from state_log.record import Cause, StateChangeSink

_log = structlog.stdlib.get_logger()


class ReplicaManager:
    """The table of hosted partitions. None is an offline partition, in a failed log directory."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        settings: Settings,
        logs: LogDirectories,
        metadata: MetadataCache,
        metrics: AgentMetrics,
        proposals: IsrProposals,
        sink: StateChangeSink,
        random: Random,
    ) -> None:
        """`random`: for the ids of fetch sessions, which nobody should guess."""
        self.own_id = own_id
        self.settings = settings
        self.logs = logs
        self.metadata = metadata
        self.metrics = metrics
        self.produce_purgatory = Purgatory("Produce", metrics.registry)
        self.follower_fetch_purgatory = Purgatory("Fetch", metrics.registry)
        """Fetches of followers and of all others that read up to the log end."""
        self.fetch_purgatory = Purgatory("Fetch", metrics.registry, in_parts=True)
        """Fetches of consumers, of which thousands may wait for one partition."""
        self.delete_records_purgatory = Purgatory("DeleteRecords", metrics.registry)
        self._purgatories = (
            self.produce_purgatory,
            self.follower_fetch_purgatory,
            self.delete_records_purgatory,
            self.fetch_purgatory,
        )
        self.fetch_sessions = FetchSessions(
            self.purgatory_of,
            self.online,
            random,
            metrics.registry,
            slots=settings.max_incremental_fetch_session_cache_slots,
        )
        self.leader_quota, self.follower_quota = (
            ReplicationQuota(side, own_id, settings, metrics.registry)
            for side in (ThrottledSide.LEADER, ThrottledSide.FOLLOWER)
        )
        self._proposals, self._sink = proposals, sink
        self.on_truncation: Callable[[TopicPartition, Offset], None] = lambda _tp, _offset: None
        """Told of each truncation of a replica: its copy in another log directory has to follow (R5.20)."""
        self.on_change: Callable[[TopicPartition], None] = lambda _tp: None
        """Told of each change of a hosted partition or its log: a fetcher may have to ask for something else."""
        self.without_room: set[str] = set()
        """Directories where a role was refused for want of room: the controller has to ask again when there is some."""
        self._has_changed = True
        """Whether a hosted partition or its log has changed since the last checkpoint of the high watermarks."""
        self._swapping: HostedPartition | None = None
        self._hosted: dict[TopicPartition, HostedPartition | None] = {}
        self._led: dict[TopicPartition, HostedPartition] = {}
        self._led_of_topic: Counter[str] = Counter()
        self._hosted_of_topic: Counter[str] = Counter()

    @staticmethod
    def now_ms() -> float:
        """The event loop's time in ms: for durations only."""
        return asyncio.get_running_loop().time() * 1000

    def online(self, tp: TopicPartition) -> HostedPartition | None:
        """The hosted partition, None if it is absent or offline."""
        return self._hosted.get(tp)

    def is_offline(self, tp: TopicPartition) -> bool:
        return tp in self._hosted and self._hosted[tp] is None

    def online_partitions(self) -> Iterator[HostedPartition]:
        return (partition for partition in self._hosted.values() if partition is not None)

    def offline_partitions(self) -> Iterator[TopicPartition]:
        return (tp for tp, partition in self._hosted.items() if partition is None)

    @property
    def offline_count(self) -> int:
        """The number of offline partitions."""
        return sum(partition is None for partition in self._hosted.values())

    def leads_any_of(self, topic: str) -> bool:
        """Whether a partition of the topic is led here."""
        return self._led_of_topic[topic] > 0

    def host(self, tp: TopicPartition) -> HostedPartition:
        """The online partition, created if absent; it must not be offline."""
        partition = self._hosted.get(tp)
        if partition is None:
            assert tp not in self._hosted, f"{tp} is offline"
            partition = HostedPartition(
                tp,
                self.own_id,
                metadata=self.metadata,
                metrics=self.metrics,
                lag_ms_max=self.settings.replica_lag_time_max_ms,
                on_change=self.changed,
            )
            self._hosted[tp] = partition
            self._hosted_of_topic[tp.topic] += 1
            self.metrics.partition_count.inc()
        return partition

    def changed(self, tp: TopicPartition) -> None:
        """Note that fetches of a partition, from here or by fetchers of this broker, may differ from the last ones."""
        self._has_changed = True
        self.follower_fetch_purgatory.tell(tp)
        self.fetch_purgatory.tell(tp)
        self.on_change(tp)

    @contextmanager
    def swapping(self, partition: HostedPartition) -> Iterator[None]:
        """Let appends and truncations wait while the copy of a partition takes the place of its log; one at a time."""
        assert self._swapping is None, f"{partition.topic_partition} is swapped beside another one"
        self._swapping = partition
        try:
            with partition.being_swapped():
                yield
        finally:
            self._swapping = None

    @property
    def swapped(self) -> TopicPartition | None:
        """The partition that is being swapped."""
        return None if self._swapping is None else self._swapping.topic_partition

    async def until_swapped(self) -> None:
        """Return when no log is being replaced by its copy; this holds until the caller's next await."""
        while self._swapping is not None:
            await self._swapping.until_it_takes_appends()

    def on_role_changed(self, partition: HostedPartition) -> None:
        """Update the index of led partitions; called after each role change."""
        tp = partition.topic_partition
        if not partition.is_leader:
            self._stop_leading(tp)
        elif tp not in self._led:
            self._led[tp] = partition
            self._led_of_topic[tp.topic] += 1

    def commit(self, *changes: ReplicaChange) -> None:
        """Record changes in the state-change log, in one append, take them into the table of partitions and the
        metrics, and check the requests that wait for these partitions.
        """
        records = (record_of(change, self.own_id) for change in changes)
        self._sink.append([record for record in records if record is not None])
        for change in changes:
            self._apply(change)
        for change in changes:
            self._wake_up(change)

    def _apply(self, change: ReplicaChange) -> None:
        match change:
            case RoleTaken(topic_partition=tp, follows_anew=True) if not self.leads_any_of(tp.topic):
                self.metrics.drop_topic(tp.topic)
            case IsrCommitted():
                (self.metrics.isr_expands if change.is_expansion else self.metrics.isr_shrinks).mark()
            case LogTruncated(topic_partition=tp):
                self.on_truncation(tp, change.to_offset)
            case ReplicaMoved(move=move):
                self._take_copy(move.topic_partition)
            case ReplicaOffline(topic_partition=tp):
                self._mark_offline(tp)
            case ReplicaBack(topic_partition=tp):
                self._forget_offline(tp)
            case ReplicaRemoved(topic_partition=tp):
                self._remove(tp)

    def _wake_up(self, change: ReplicaChange) -> None:
        match change:
            case IsrCommitted(topic_partition=tp):
                partition = self.online(tp)
                assert partition is not None, f"{tp} is not led here"
                self.advance(partition)
            case ReplicaMoved(move=move):
                # The copy no longer holds back the low watermark.
                self.delete_records_purgatory.check_and_complete(move.topic_partition)
            case ReplicaOffline(topic_partition=tp) | ReplicaRemoved(topic_partition=tp):
                self.complete_delayed(tp)
            case ReplicaStopped(topic_partition=tp) | RoleTaken(topic_partition=tp, follows_anew=True):
                self.complete_delayed(tp)

    def _take_copy(self, tp: TopicPartition) -> None:
        partition = self.online(tp)
        assert partition is not None, f"{tp} is not hosted"
        future = partition.future_log
        assert future is not None, f"{tp} has no copy"
        partition.take_copy()
        self.logs.replace_current(future)

    def _mark_offline(self, tp: TopicPartition) -> None:
        if self.is_offline(tp):
            return
        partition = self._hosted.get(tp)
        if partition is None:
            self.metrics.partition_count.inc()
        self._hosted[tp] = None
        self.metrics.offline_replica_count.inc()
        if partition is not None:
            self._clear(partition)

    def _forget_offline(self, tp: TopicPartition) -> None:
        assert self.is_offline(tp), f"{tp} is not offline"
        del self._hosted[tp]
        self.metrics.partition_count.dec()
        self.metrics.offline_replica_count.dec()

    def _remove(self, tp: TopicPartition) -> None:
        partition = self._hosted.pop(tp)
        assert partition is not None, f"{tp} is offline and cannot be deleted"
        self.metrics.partition_count.dec()
        self._clear(partition)

    def _clear(self, partition: HostedPartition) -> None:
        topic = partition.topic_partition.topic
        self._stop_leading(partition.topic_partition)
        self._hosted_of_topic[topic] -= 1
        partition.clear()
        if not self._hosted_of_topic[topic]:
            self.metrics.drop_topic(topic)

    def _stop_leading(self, tp: TopicPartition) -> None:
        if self._led.pop(tp, None) is not None:
            self._led_of_topic[tp.topic] -= 1

    def lookup(self, tp: TopicPartition) -> HostedPartition | ErrorCode:
        """The partition, or the error code of a data request for it (R2.5)."""
        partition = self._hosted.get(tp)
        if partition is not None:
            return partition
        if tp in self._hosted:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.metadata.contains(tp):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def lookup_leader(self, tp: TopicPartition, leader_epoch: LeaderEpoch) -> HostedPartition | ErrorCode:
        """The partition if it is led here in that epoch (-1: any), else the error code."""
        return self._validated(tp, leader_epoch, validate_leadership)

    def lookup_replica(self, tp: TopicPartition, leader_epoch: LeaderEpoch) -> HostedPartition | ErrorCode:
        """The partition if it is hosted here in that epoch (-1: any), led or not, else the error code."""
        return self._validated(tp, leader_epoch, validate_replica)

    def _validated(
        self,
        tp: TopicPartition,
        leader_epoch: LeaderEpoch,
        validate: Callable[[HostedPartition, LeaderEpoch], ErrorCode],
    ) -> HostedPartition | ErrorCode:
        partition = self.lookup(tp)
        if isinstance(partition, ErrorCode):
            return partition
        code = validate(partition, leader_epoch)
        return partition if code is ErrorCode.NONE else code

    def advance(self, partition: HostedPartition) -> bool:
        """Try to advance the high watermark of a partition led here; then complete waiting requests (R7.9)."""
        if not partition.try_advance_high_watermark(self.now_ms()):
            return False
        self.complete_delayed(partition.topic_partition)
        return True

    def is_follower_fetch(self, request: FetchRequest) -> bool:
        """Whether the replica that the fetch names is a follower of a partition that it fetches and this broker leads.

        It is the claim of the caller: nothing verifies who that is. A session was granted to a follower only.
        """
        if request.replica_id < 0:
            return False
        return isinstance(self.fetch_sessions.find(request), FetchSession) or any(
            partition is not None and request.replica_id in partition.remote
            for partition in (self.online(TopicPartition(item.topic, item.partition)) for item in request.partitions)
        )

    def purgatory_of(self, request: FetchRequest) -> Purgatory:
        """Return where this fetch waits."""
        return self.follower_fetch_purgatory if reads_to_log_end(request) else self.fetch_purgatory

    def complete_delayed(self, tp: TopicPartition) -> None:
        """Check every request that waits for the partition."""
        for purgatory in self._purgatories:
            purgatory.check_and_complete(tp)

    def close_purgatories(self) -> None:
        """Complete every waiting request with the state at hand; later ones do not wait."""
        for purgatory in self._purgatories:
            purgatory.close()

    def high_watermark_rose(self, tp: TopicPartition) -> None:
        """A follower's high watermark increased (R5.10 step 4)."""
        self.fetch_purgatory.check_and_complete(tp)
        self.follower_fetch_purgatory.check_and_complete(tp)

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks of all online partitions that have a log, and of copies, by directory (R9.8).

        Nothing is written, or collected, while they are as they were written last.
        """
        if not self._has_changed and not self.logs.futures.all:
            return
        self._has_changed, are_written = False, False
        try:
            are_written = all([await self._checkpoint(directory) for directory in self.logs.live_directories])
        finally:
            self._has_changed |= not are_written

    async def _checkpoint(self, directory: str) -> bool:
        """Write the high watermarks of one directory; returns whether that succeeded."""
        try:
            await self.logs.write_high_watermarks(directory, partial(self._high_watermarks_in, directory))
        except FullDirectoryError as error:
            _log.debug("Checkpoint of high watermarks waits for room", directory=directory, error=str(error))
            return False
        except StorageError as error:
            _log.warning("Checkpointing high watermarks failed", directory=directory, error=str(error))
            return False
        return True

    def _high_watermarks_in(self, directory: str) -> dict[TopicPartition, Offset]:
        hosted = (p.log for p in self.online_partitions() if p.log is not None)
        logs = (log for log in (*self.logs.futures.all.values(), *hosted) if log.directory == directory)
        return {log.topic_partition: log.high_watermark_to_checkpoint for log in logs}

    def shrink_isrs(self) -> None:
        """Propose to remove lagging followers from the ISR of every partition led here (R8.4)."""
        for partition in tuple(self._led.values()):
            try:
                proposal = partition.propose_shrink(self.now_ms())
            except Exception:  # One partition must not keep the others in a stale ISR (R8.8).
                _log.exception("ISR check failed", partition=str(partition.topic_partition))
                continue
            if proposal is not None:
                self.submit(partition, proposal)

    async def withdraw_isr_proposals(self, partitions: Collection[TopicPartition]) -> None:
        """Return when no ISR of these partitions, which are no longer hosted, can be written any more."""
        await self._proposals.withdraw(partitions)

    def submit(self, partition: HostedPartition, proposal: IsrProposal) -> None:
        """Submit the partition's proposal, until it is answered (R8.13)."""
        assert partition.log is not None, f"{partition.topic_partition} has no log"
        item = AlterPartitionItem(
            topic_name=partition.topic_partition.topic,
            topic_id=partition.log.topic_id,
            partition_index=partition.topic_partition.partition,
            leader_epoch=partition.leader_epoch,
            new_isr=proposal.isr,
            partition_epoch=partition.partition_epoch,
            new_isr_epochs=proposal.epochs,
        )
        self._submit(partition, proposal, item)

    def _submit(self, partition: HostedPartition, proposal: IsrProposal, item: AlterPartitionItem) -> None:
        complete = partial(self._finish, partition, proposal, item)
        self._proposals.submit(item, complete, controller_epoch=partition.controller_epoch)

    def _finish(
        self,
        partition: HostedPartition,
        proposal: IsrProposal,
        item: AlterPartitionItem,
        answer: AlterPartitionResult,
        cause: Cause,
    ) -> None:
        outcome = partition.finish_isr_change(proposal, answer)
        if outcome is IsrAnswer.COMMIT:
            log = partition.log
            role, partition.unrecorded_role = partition.unrecorded_role, None
            self.commit(
                *(() if role is None else (role,)),
                IsrCommitted(
                    partition.topic_partition,
                    None if log is None else log.topic_id,
                    partition.leader_epoch,
                    answer.partition_epoch,
                    answer.isr,
                    partition.assignment.replicas,
                    None if log is None else log.config.min_insync_replicas,
                    cause,
                    proposal.is_expansion,
                ),
            )
            return
        if outcome is None:
            _log.debug(
                "Ignored the response to a superseded ISR change",
                partition=str(partition.topic_partition),
                isr=item.new_isr,
            )
            return
        self.metrics.failed_isr_updates.mark()
        tp = str(partition.topic_partition)
        _log.info("ISR change failed", partition=tp, isr=item.new_isr, code=answer.error_code.name, outcome=outcome)
        if outcome is IsrAnswer.SUBMIT_AGAIN:
            self._submit(partition, proposal, item)


def validate_replica(partition: HostedPartition, leader_epoch: LeaderEpoch) -> ErrorCode:
    """Whether the partition has a log here, in that epoch (-1: any); the epoch is tested first (R6.3)."""
    code = validate_leader_epoch(leader_epoch, partition.leader_epoch)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code is ErrorCode.NONE and partition.log is None else code


def validate_leadership(partition: HostedPartition, leader_epoch: LeaderEpoch) -> ErrorCode:
    """Whether the partition is led here in that epoch (-1: any); epochs are tested first (R6.3, R6.4)."""
    code = validate_replica(partition, leader_epoch)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code is ErrorCode.NONE and not partition.is_leader else code
