"""Fetch from followers and consumers, on the leader; and on followers, from consumers near them.

Source: Kafka ReplicaManager.fetchMessages, readFromLog, DelayedFetch; KIP-392. KIP-227 is not implemented: every
request names all its partitions.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from broker_agent.decisions.data_requests import UNREMARKABLE_FETCH_ERRORS
from broker_agent.decisions.read_replica import choose_read_replica, may_read_from_follower, reads_to_log_end
from broker_agent.decisions.truncation import diverges
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.replica_manager import ReplicaManager, validate_leadership, validate_replica
from cluster.aio.slices import SLICE, each_slice
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
    FetchResponse,
)

_RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Leaves room for a first batch above the limit: a response is one message, of which peers take 128 MiB."""


class _Bounds(Struct, frozen=True):
    """Offsets of a log captured before it is read: appends during the read must not change the response (R6.6)."""

    log_start: Offset
    high_watermark: Offset
    log_end: Offset


class FetchRequests:
    """Handles Fetch, at once or when enough bytes have arrived."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    async def handle(self, request: FetchRequest) -> FetchResponse:
        """Read all partitions; wait up to `max_wait_ms` for `min_bytes` unless there is a reason to respond at once."""
        max_bytes = min(request.max_bytes, self._manager.settings.fetch_max_bytes, _RESPONSE_BYTES_MAX)
        # More bytes than fit into a response are not waited for.
        request = replace(request, max_bytes=max_bytes, min_bytes=min(request.min_bytes, max_bytes))
        data = await self._read_all(request, request.partitions, arrival_ms=self._manager.now_ms())
        if _must_answer_now(request, data):
            return self._answer(request, data)
        waiting = _WaitingFetch(request, self._manager)
        async for part in each_slice(range(len(data))):
            waiting.add(part, data)
        # Of more than one slice there were awaits since the first was read: all are tested once they are watched.
        is_done = len(waiting.keys) <= SLICE and any(waiting.check(key) for key in waiting.keys)
        is_follower = request.replica_id >= 0
        waits_for_log_end = reads_to_log_end(request)
        purgatory = self._manager.follower_fetch_purgatory if waits_for_log_end else self._manager.fetch_purgatory
        if not is_done and not await purgatory.wait(waiting.test, waiting.keys, request.max_wait_ms):
            self._manager.metrics.expired_fetches["follower" if is_follower else "consumer"].mark()
        # Read again what may have changed, without updating the follower's progress: the leader completed the wait, and
        # that must not make a dead follower look alive (R6.16).
        changed: list[int] = []
        async for part in each_slice(range(len(data))):
            changed += [index for index in part if waiting.has_changed(index, data[index])]
        items = [request.partitions[index] for index in changed]
        for index, item in zip(changed, await self._read_all(request, items, arrival_ms=None), strict=True):
            data[index] = item
        return self._answer(request, data)

    async def _read_all(
        self, request: FetchRequest, items: Sequence[FetchPartition], *, arrival_ms: float | None
    ) -> list[FetchPartitionData]:
        """Read each partition; one result for each.

        `arrival_ms`: update the follower's progress from the request, as of that time.
        """
        remaining = request.max_bytes
        is_empty = True
        results = []
        throttle = _Throttle(self._manager, request)
        async for part in each_slice(items):
            for item in part:
                limit = min(item.partition_max_bytes, remaining)
                try:
                    data = self._read(request, item, limit, throttle, at_least_one=is_empty, arrival_ms=arrival_ms)
                except StorageError:
                    data = FetchPartitionData(item.topic, item.partition, ErrorCode.KAFKA_STORAGE_ERROR)
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
        throttle: "_Throttle",
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

    def _choose_replica(
        self, partition: HostedPartition, request: FetchRequest, item: FetchPartition
    ) -> BrokerId | None:
        """The follower that a consumer should read from, as `replica.selector.class` says."""
        is_near_somewhere = request.replica_id == CONSUMER and bool(request.rack_id)
        if self._manager.settings.replica_selector_class is None or not (partition.is_leader and is_near_somewhere):
            return None
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

    def _answer(self, request: FetchRequest, data: list[FetchPartitionData]) -> FetchResponse:
        for item in data:
            if item.records:
                self._count_bytes(request, item)
        return FetchResponse(ErrorCode.NONE, tuple(data))

    def _count_bytes(self, request: FetchRequest, data: FetchPartitionData) -> None:
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


class _Throttle:
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


class _WaitingFetch:
    """Decides when a waiting fetch is answered (R6.15). Bytes are summed over its partitions."""

    def __init__(self, request: FetchRequest, manager: ReplicaManager) -> None:
        self._request = request
        self._manager = manager
        self._throttle = _Throttle(manager, request)
        self._waits_for_log_end = reads_to_log_end(request)
        self._lookup = manager.lookup_replica if may_read_from_follower(request) else manager.lookup_leader
        self._items: dict[TopicPartition, FetchPartition] = {}
        self._available: dict[TopicPartition, int] = {}
        self._total = 0
        self._changed: set[TopicPartition] = set()

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        return tuple(self._items)

    def add(self, part: Sequence[int], data: list[FetchPartitionData]) -> None:
        """Wait for the partitions at these positions, too.

        Records that were read are dropped, and read again: as long as it waits, a request has no room for them.
        """
        for index in part:
            item = self._request.partitions[index]
            tp = TopicPartition(item.topic, item.partition)
            self._items[tp] = item
            if data[index].records:
                data[index] = replace(data[index], records=b"")
                self._changed.add(tp)

    def has_changed(self, index: int, data: FetchPartitionData) -> bool:
        """Whether the partition at this position changed since it was read, possibly by this very request (R6.12)."""
        tp = TopicPartition(data.topic, data.partition)
        partition = self._manager.online(tp)
        log = None if partition is None else partition.log
        if log is None or tp in self._changed:
            return True
        if (log.high_watermark, log.log_start_offset) != (data.high_watermark, data.log_start_offset):
            return True
        return self._request.partitions[index].fetch_offset < self._bound(log)

    def test(self, key: TopicPartition) -> bool:
        """Check a partition that is watched now, and each time after it changed; True if the request should be answered
        now.
        """
        was_checked = key in self._available
        is_done = self.check(key)
        if was_checked or is_done:
            self._changed.add(key)
        return is_done

    def _bound(self, log: PartitionLog) -> Offset:
        return log.log_end_offset if self._waits_for_log_end else log.high_watermark

    def check(self, key: TopicPartition) -> bool:
        """Include one partition in the sum; True if the request should be answered now.

        Never raises for a failed log: its error must not reach the request that changed the partition.
        """
        try:
            return self._check(key)
        except StorageError:
            return True

    def _check(self, key: TopicPartition) -> bool:
        item = self._items[key]
        partition = self._lookup(key, item.current_leader_epoch)
        if isinstance(partition, ErrorCode) or partition.log is None:
            return True
        log = partition.log
        bound = self._bound(log)
        if item.fetch_offset > bound:
            return True
        if item.last_fetched_epoch != NO_LEADER_EPOCH:
            answer = log.end_offset_for_epoch(item.last_fetched_epoch)
            if diverges(answer, last_fetched_epoch=item.last_fetched_epoch, fetch_offset=item.fetch_offset):
                return True
        available = 0
        # What is throttled is not waited for; it is in the response if the quota has room by then.
        if item.fetch_offset < bound and self._throttle.allow(partition, 1) is not None:
            between = log.bytes_between(item.fetch_offset, bound)
            if between is None:
                return True
            available = min(between, item.partition_max_bytes)
        self._total += available - self._available.get(key, 0)
        self._available[key] = available
        return self._total >= self._request.min_bytes


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


def _must_answer_now(request: FetchRequest, data: list[FetchPartitionData]) -> bool:
    """Whether to respond without waiting: enough bytes, no wait time, or what the sender should know soon (R6.14)."""
    return (
        request.max_wait_ms <= 0
        or not data
        or sum(len(item.records) for item in data) >= request.min_bytes
        or any(
            item.error_code is not ErrorCode.NONE
            or item.diverging_epoch is not None
            or item.preferred_read_replica != NO_READ_REPLICA
            for item in data
        )
    )
