"""What a leader, or a follower asked by a consumer near it, reads for a fetch; and what it learns of a follower by it.

Source: Kafka ReplicaManager.readFromLog, Partition.readRecords; KIP-392.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from broker_agent.decisions.data_requests import UNREMARKABLE_FETCH_ERRORS
from broker_agent.decisions.read_replica import choose_read_replica, may_read_from_follower, reads_to_log_end
from broker_agent.decisions.truncation import diverges
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.replica_manager import ReplicaManager, validate_leadership, validate_replica
from cluster.aio.slices import each_slice
from cluster.model.broker import NO_LEADER_EPOCH, BrokerId, Offset
from cluster.model.errors import ErrorCode, LogAppendError, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    CONSUMER,
    NO_READ_REPLICA,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
)

OnRead = Callable[[FetchPartition, FetchPartitionData], None]
"""Called for each partition with its result, in the step in which it was read."""


class _Bounds(Struct, frozen=True):
    """Offsets of a log captured before it is read: appends during the read must not change the response (R6.6)."""

    log_start: Offset
    high_watermark: Offset
    log_end: Offset


class FetchReads:
    """Reads the partitions of fetches."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    async def read_all(
        self,
        request: FetchRequest,
        items: Sequence[FetchPartition],
        *,
        arrival_ms: float | None,
        on_read: OnRead | None = None,
    ) -> list[FetchPartitionData]:
        """Read each partition; one result for each.

        `arrival_ms`: update the follower's progress from the request, as of that time.
        """
        remaining = request.max_bytes
        is_empty = True
        results = []
        throttle = LeaderThrottle(self._manager, request)
        async for part in each_slice(items):
            for item in part:
                limit = min(item.partition_max_bytes, remaining)
                try:
                    data = self._read(request, item, limit, throttle, at_least_one=is_empty, arrival_ms=arrival_ms)
                except StorageError:
                    data = FetchPartitionData(item.topic, item.partition, ErrorCode.KAFKA_STORAGE_ERROR)
                if on_read is not None:
                    on_read(item, data)
                results.append(data)
                remaining -= len(data.records)
                is_empty = is_empty and not data.records
                if arrival_ms is not None:
                    self._count(item, data.error_code)
        return results

    def _read(
        self,
        request: FetchRequest,
        item: FetchPartition,
        limit: int,
        throttle: "LeaderThrottle",
        *,
        at_least_one: bool,
        arrival_ms: float | None,
    ) -> FetchPartitionData:
        partition = self._admit(request, item)
        if isinstance(partition, ErrorCode):
            return FetchPartitionData(item.topic, item.partition, partition)
        log = partition.log
        assert log is not None, f"{partition.topic_partition} is led without a log"
        bounds = _Bounds(log.log_start_offset, log.high_watermark, log.log_end_offset)
        if item.last_fetched_epoch != NO_LEADER_EPOCH:
            verdict = _compare_epochs(item, log, bounds)
            if verdict is not None:
                return verdict
        if not bounds.log_start <= item.fetch_offset <= bounds.log_end:
            return _answer(item, bounds, ErrorCode.OFFSET_OUT_OF_RANGE)
        if request.replica_id == CONSUMER:
            preferred = self._choose_replica(partition, request, item)
            if preferred is not None:
                return _answer(item, bounds, preferred_read_replica=preferred)
        # Consumers see committed records only: a later one may still be truncated if another replica is elected.
        upper = bounds.log_end if reads_to_log_end(request) else bounds.high_watermark
        records = b""
        # Most partitions have nothing new: a fetch names all of them, so what is done here is done for each.
        allowed = throttle.allow(partition, limit) if item.fetch_offset < upper else None
        if allowed is not None and (allowed > 0 or at_least_one):
            try:
                records = log.read(item.fetch_offset, allowed, upper, at_least_one=at_least_one)
            except LogAppendError as error:
                return _answer(item, bounds, error.code)
            throttle.sent(partition, len(records))
        if request.replica_id >= 0 and arrival_ms is not None:
            self._record_follower_fetch(partition, request, item, bounds, arrival_ms)
        return _answer(item, bounds, records=records)

    def _admit(self, request: FetchRequest, item: FetchPartition) -> HostedPartition | ErrorCode:
        """The partition, after checks of topic, leadership and follower, in this order (R6.1 to R6.5, R6.11)."""
        tp = TopicPartition(item.topic, item.partition)
        if item.topic_id is not None and not self._manager.metadata.knows_topic_id(item.topic_id):
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not self._manager.metadata.contains(tp):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self._manager.lookup(tp)
        if isinstance(partition, ErrorCode):
            return partition
        log_topic_id = None if partition.log is None else partition.log.topic_id
        if item.topic_id is not None and log_topic_id is not None and item.topic_id != log_topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        validate = validate_replica if may_read_from_follower(request) else validate_leadership
        code = validate(partition, item.current_leader_epoch)
        if code is not ErrorCode.NONE:
            return code
        if request.replica_id >= 0:
            code = _validate_follower(partition, request, item)
        return partition if code is ErrorCode.NONE else code

    def may_idle(self, request: FetchRequest, item: FetchPartition) -> bool:
        """Whether the fetcher has all that it may read of a partition, and a later fetch finds something new only after
        a change of the partition.
        """
        partition = self._manager.online(TopicPartition(item.topic, item.partition))
        if partition is None or partition.log is None:
            return False
        if request.replica_id >= 0:
            return partition.has_fetched_all(request.replica_id, item)
        end = partition.log.log_end_offset if reads_to_log_end(request) else partition.log.high_watermark
        return item.fetch_offset == end and not self._chooses_replica(partition, request)

    def _chooses_replica(self, partition: HostedPartition, request: FetchRequest) -> bool:
        """Whether each fetch of this consumer may be sent to another replica, as brokers come and go."""
        is_near_somewhere = request.replica_id == CONSUMER and bool(request.rack_id)
        return self._manager.settings.replica_selector_class is not None and partition.is_leader and is_near_somewhere

    def _choose_replica(
        self, partition: HostedPartition, request: FetchRequest, item: FetchPartition
    ) -> BrokerId | None:
        """The follower that a consumer should read from, as `replica.selector.class` says."""
        if not self._chooses_replica(partition, request):
            return None
        # The times at which followers were caught up last are compared: those of idle ones are written down by this.
        partition.changed()
        return choose_read_replica(
            request.rack_id,
            item.fetch_offset,
            self._manager.own_id,
            partition.remote,
            isr=partition.isr,
            racks=self._manager.metadata.racks((self._manager.own_id, *partition.isr)),
        )

    def _record_follower_fetch(
        self, partition: HostedPartition, request: FetchRequest, item: FetchPartition, bounds: _Bounds, now_ms: float
    ) -> None:
        """Update the follower's progress, propose it for the ISR if it may join, then advance watermarks (R6.12)."""
        moved, proposal = partition.record_follower_fetch(
            request, item, leader_end_offset=bounds.log_end, now_ms=now_ms
        )
        if proposal is not None:
            self._manager.submit(partition, proposal)
        if not (moved and self._manager.advance(partition)):
            # Its log start may have held back the low watermark.
            self._manager.delete_records_purgatory.check_and_complete(partition.topic_partition)

    def _count(self, item: FetchPartition, code: ErrorCode) -> None:
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return  # A meter for every topic name that somebody invents would never end.
        self._manager.metrics.mark(item.topic, "TotalFetchRequestsPerSec")
        if code is not ErrorCode.NONE and code not in UNREMARKABLE_FETCH_ERRORS:
            self._manager.metrics.mark(item.topic, "FailedFetchRequestsPerSec")

    def count_bytes(self, request: FetchRequest, data: FetchPartitionData) -> None:
        """Count the records of a partition in an answer."""
        metrics, size = self._manager.metrics, len(data.records)
        if request.replica_id < 0:
            metrics.mark(data.topic, "BytesOutPerSec", size)
            return
        metrics.replication_bytes_out.mark(size)
        partition = self._manager.online(TopicPartition(data.topic, data.partition))
        if partition is None:
            return
        if request.replica_id in partition.assignment.adding:
            metrics.reassignment_bytes_out.mark(size)
        quota = self._manager.leader_quota
        if partition.log is not None and quota.is_throttled(partition.log):
            quota.record(size, self._manager.now_ms())


class LeaderThrottle:
    """What one fetch of a follower may be sent of throttled partitions.

    Source: Kafka ReplicaManager.shouldLeaderThrottle, ReplicationQuotaManager.
    """

    def __init__(self, manager: ReplicaManager, request: FetchRequest) -> None:
        self._manager = manager
        self._follower = request.replica_id
        self._sent = 0

    def allow(self, partition: HostedPartition, limit: int) -> int | None:
        """The most bytes of this partition, at most `limit`; None: nothing at all while the quota is exceeded."""
        quota = self._manager.leader_quota
        if not self._is_throttled(partition):
            return limit
        assert quota.burst_bytes is not None, "without a rate nothing is throttled"
        if quota.is_exceeded(self._manager.now_ms(), more=self._sent):
            return None
        return max(0, min(limit, quota.burst_bytes - self._sent))

    def sent(self, partition: HostedPartition, size: int) -> None:
        """Count what the response has of a throttled partition."""
        if size and self._is_throttled(partition):
            self._sent += size

    def _is_throttled(self, partition: HostedPartition) -> bool:
        """Whether a quota holds for this follower: those in sync are never throttled."""
        if self._follower < 0 or self._follower in partition.isr or partition.log is None:
            return False
        return self._manager.leader_quota.is_throttled(partition.log)


def _validate_follower(partition: HostedPartition, request: FetchRequest, item: FetchPartition) -> ErrorCode:
    if request.replica_id not in partition.remote:
        # With an epoch, the leader may only not have received the new assignment yet (R6.5).
        knows_epoch = item.current_leader_epoch != NO_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if partition.is_of_earlier_incarnation(request) else ErrorCode.NONE


def _compare_epochs(item: FetchPartition, log: PartitionLog, bounds: _Bounds) -> FetchPartitionData | None:
    """The result for a diverging last fetched epoch; None to continue to read (R6.7)."""
    answer = log.end_offset_for_epoch(item.last_fetched_epoch)
    if answer.epoch == NO_LEADER_EPOCH or item.fetch_offset < bounds.log_start:
        return _answer(item, bounds, ErrorCode.OFFSET_OUT_OF_RANGE)
    if not diverges(answer, last_fetched_epoch=item.last_fetched_epoch, fetch_offset=item.fetch_offset):
        return None
    return _answer(item, bounds, diverging_epoch=answer)


def _answer(
    item: FetchPartition,
    bounds: _Bounds,
    error_code: ErrorCode = ErrorCode.NONE,
    *,
    records: bytes = b"",
    diverging_epoch: EpochEndOffset | None = None,
    preferred_read_replica: BrokerId = NO_READ_REPLICA,
) -> FetchPartitionData:
    """Build a partition's result with the log's offsets, which errors carry, too."""
    return FetchPartitionData(
        topic=item.topic,
        partition=item.partition,
        error_code=error_code,
        high_watermark=bounds.high_watermark,
        last_stable_offset=bounds.high_watermark,
        log_start_offset=bounds.log_start,
        diverging_epoch=diverging_epoch,
        preferred_read_replica=preferred_read_replica,
        records=records,
    )
