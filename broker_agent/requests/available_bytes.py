"""When a fetch that waits for bytes is answered (R6.15). Source: Kafka DelayedFetch."""

from collections.abc import Callable

from broker_agent.decisions.read_replica import may_read_from_follower, reads_to_log_end
from broker_agent.decisions.truncation import diverges
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.fetch_reads import LeaderThrottle
from cluster.model.broker import NO_LEADER_EPOCH, Offset
from cluster.model.errors import ErrorCode, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchPartition, FetchRequest


class AvailableBytes:
    """The bytes that a fetch would be answered with now, summed over its partitions."""

    def __init__(
        self, request: FetchRequest, manager: ReplicaManager, item: Callable[[TopicPartition], FetchPartition]
    ) -> None:
        """`item`: what the fetch asks of a partition."""
        self._request = request
        self._item = item
        self._throttle = LeaderThrottle(manager, request)
        self._waits_for_log_end = reads_to_log_end(request)
        self._lookup = manager.lookup_replica if may_read_from_follower(request) else manager.lookup_leader
        self._available: dict[TopicPartition, int] = {}
        self._total = 0

    def was_checked(self, key: TopicPartition) -> bool:
        """Whether the partition is in the sum."""
        return key in self._available

    def bound(self, log: PartitionLog) -> Offset:
        """The offset up to which the fetch reads."""
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
        item = self._item(key)
        partition = self._lookup(key, item.current_leader_epoch)
        if isinstance(partition, ErrorCode) or partition.log is None:
            return True
        log = partition.log
        bound = self.bound(log)
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
