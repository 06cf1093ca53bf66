"""The rate at which a broker sends, or receives, the records of throttled replicas.

A reassignment copies whole logs; without a limit it takes the network from clients. Only replicas on the lists of their
topics count, and only those that are not in sync wait: replication of what clients produce is never held up. Source:
Kafka ReplicationQuotaManager, ReplicaManager.shouldLeaderThrottle; KIP-73.
"""

from enum import StrEnum
from typing import Final

import structlog

from broker_agent.decisions.throttled_replicas import is_listed
from broker_agent.log.partition_log import PartitionLog
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId
from cluster.model.sampled_rate import SampledRate

_log = structlog.stdlib.get_logger()


class ThrottledSide(StrEnum):
    """What the broker is to the replicas whose records it throttles."""

    LEADER = "leader"
    FOLLOWER = "follower"

    @property
    def rate_key(self) -> str:
        """The config of the broker."""
        return f"{self}.replication.throttled.rate"

    @property
    def replicas_key(self) -> str:
        """The config of the topic."""
        return f"{self}.replication.throttled.replicas"


_TYPES: Final = {ThrottledSide.LEADER: "LeaderReplication", ThrottledSide.FOLLOWER: "FollowerReplication"}


class ReplicationQuota:
    """The quota of one side. Times in ms of the event loop's clock; without a rate nothing is throttled."""

    def __init__(self, side: ThrottledSide, own_id: BrokerId, settings: Settings, metrics: Metrics) -> None:
        self.side = side
        self.bytes_per_second: int | None = None
        self.is_of_all = False
        """Whether the rate is the cluster-wide one."""
        self._own_id = own_id
        self._window_s = settings.replication_quota_window_num * settings.replication_quota_window_size_seconds
        self._rate = SampledRate(
            settings.replication_quota_window_num, settings.replication_quota_window_size_seconds * 1000
        )
        self._exposed = metrics.gauge("kafka.server", _TYPES[side], "byte-rate")

    @property
    def burst_bytes(self) -> int | None:
        """The most that may come at once: more would be forgotten before it is paid for by waiting. None: no limit."""
        return None if self.bytes_per_second is None else max(1, self.bytes_per_second * self._window_s)

    def set_rate(self, *, own: int | None, of_all: int | None) -> None:
        """Change the rate to this broker's own, else to the cluster-wide one; without both nothing is throttled."""
        bytes_per_second, self.is_of_all = (of_all, True) if own is None else (own, False)
        if bytes_per_second != self.bytes_per_second:
            _log.info("Replication throttle changed", side=str(self.side), bytes_per_second=bytes_per_second)
            self.bytes_per_second = bytes_per_second

    def is_throttled(self, log: PartitionLog) -> bool:
        """Whether this broker's replica is on the list of its topic, and there is a rate."""
        if self.bytes_per_second is None:
            return False
        config = log.config
        listed = (
            config.leader_replication_throttled_replicas
            if self.side is ThrottledSide.LEADER
            else config.follower_replication_throttled_replicas
        )
        return bool(listed) and is_listed(listed, log.topic_partition.partition, self._own_id)

    def is_exceeded(self, now_ms: float, *, more: int = 0) -> bool:
        """Whether the rate is exceeded; `more`: bytes that are about to be recorded."""
        return self.bytes_per_second is not None and self._rate.per_second(now_ms, more=more) > self.bytes_per_second

    def record(self, size: int, now_ms: float) -> None:
        """Count bytes of throttled replicas."""
        self._rate.record(size, now_ms)

    def refresh(self, now_ms: float) -> None:
        """Update the gauge of the rate, which falls while nothing is recorded."""
        self._exposed.set(self._rate.per_second(now_ms))
