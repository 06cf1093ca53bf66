"""Gauges and meters of an agent, updated on each change and never computed at scrape time.

The names are those of the MBeans of Kafka (kafka.server ReplicaManager and BrokerTopicMetrics, kafka.cluster
Partition), so that existing dashboards work.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from msgspec import Struct

from cluster.metrics.registry import Meter, Metrics, Samples
from cluster.model.partition import TopicPartition

_REPLICA_MANAGER: Final = "ReplicaManager"
_TOPIC_METRICS: Final = "BrokerTopicMetrics"

LEADER_METERS: Final = (
    "MessagesInPerSec",
    "BytesInPerSec",
    "BytesRejectedPerSec",
    "TotalProduceRequestsPerSec",
    "FailedProduceRequestsPerSec",
    "BytesOutPerSec",
    "TotalFetchRequestsPerSec",
    "FailedFetchRequestsPerSec",
    "InvalidMessageCrcRecordsPerSec",
    "InvalidMagicNumberRecordsPerSec",
    "InvalidOffsetOrSequenceRecordsPerSec",
    "NoKeyCompactedTopicRecordsPerSec",
)
"""Kept for the whole broker and for each topic of which it leads a partition."""


class PartitionStatus(Struct, frozen=True):
    """The gauge values of one online partition; all false and zero on a follower."""

    leads: bool = False
    under_replicated: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    reassigning: bool = False
    in_sync_replicas: int = 0
    replicas: int = 0
    last_stable_offset_lag: int = 0
    """Always 0: without transactions everything committed is stable."""


IDLE: Final = PartitionStatus()

_BROKER_GAUGES: Final = {
    "LeaderCount": "leads",
    "UnderReplicatedPartitions": "under_replicated",
    "UnderMinIsrPartitionCount": "under_min_isr",
    "AtMinIsrPartitionCount": "at_min_isr",
    "ReassigningPartitions": "reassigning",
}
_PARTITION_GAUGES: Final = {
    "UnderReplicated": "under_replicated",
    "UnderMinIsr": "under_min_isr",
    "AtMinIsr": "at_min_isr",
    "InSyncReplicasCount": "in_sync_replicas",
    "ReplicasCount": "replicas",
    "LastStableOffsetLag": "last_stable_offset_lag",
}
_PRODUCE_EXPIRIES: Final = ("kafka.server", "DelayedProduceMetrics", "ExpiresPerSec")


class AgentMetrics:
    """The metrics of one agent. With `per_partition` False there are no gauges of single partitions."""

    def __init__(self, metrics: Metrics, *, per_partition: bool) -> None:
        self.registry = metrics
        self._per_partition = per_partition
        self._status_gauges = {
            field: metrics.gauge("kafka.server", _REPLICA_MANAGER, name) for name, field in _BROKER_GAUGES.items()
        }
        self.partition_count = metrics.gauge("kafka.server", _REPLICA_MANAGER, "PartitionCount")
        self.offline_replica_count = metrics.gauge("kafka.server", _REPLICA_MANAGER, "OfflineReplicaCount")
        self.isr_expands = metrics.meter("kafka.server", _REPLICA_MANAGER, "IsrExpandsPerSec")
        self.isr_shrinks = metrics.meter("kafka.server", _REPLICA_MANAGER, "IsrShrinksPerSec")
        self.failed_isr_updates = metrics.meter("kafka.server", _REPLICA_MANAGER, "FailedIsrUpdatesPerSec")
        self.replication_bytes_in = metrics.meter("kafka.server", _TOPIC_METRICS, "ReplicationBytesInPerSec")
        self.replication_bytes_out = metrics.meter("kafka.server", _TOPIC_METRICS, "ReplicationBytesOutPerSec")
        self.reassignment_bytes_in = metrics.meter("kafka.server", _TOPIC_METRICS, "ReassignmentBytesInPerSec")
        self.reassignment_bytes_out = metrics.meter("kafka.server", _TOPIC_METRICS, "ReassignmentBytesOutPerSec")
        self.expired_produces = metrics.meter(*_PRODUCE_EXPIRIES)
        self.expired_fetches = {
            kind: metrics.meter("kafka.server", "DelayedFetchMetrics", "ExpiresPerSec", fetcherType=kind)
            for kind in ("consumer", "follower")
        }
        self.expired_record_deletions = metrics.meter("kafka.server", "DelayedDeleteRecordsMetrics", "ExpiresPerSec")
        self.broker_state = metrics.gauge("kafka.server", "KafkaServer", "BrokerState")
        self._broker_meters = {name: metrics.meter("kafka.server", _TOPIC_METRICS, name) for name in LEADER_METERS}
        self._topic_meters: dict[str, dict[str, Meter]] = {}
        self._statuses: dict[TopicPartition, PartitionStatus] = {}
        if per_partition:
            for name, field in _PARTITION_GAUGES.items():
                metrics.readings("kafka.cluster", "Partition", name, partial(self._read, field))

    def mark(self, topic: str, name: str, count: int = 1) -> None:
        """Count an event of `topic`, for the topic and for the broker."""
        self._broker_meters[name].mark(count)
        meters = self._topic_meters.get(topic)
        if meters is None:
            tags = {"topic": topic}
            meters = {n: self.registry.meter("kafka.server", _TOPIC_METRICS, n, **tags) for n in LEADER_METERS}
            self._topic_meters[topic] = meters
        meters[name].mark(count)

    def drop_topic(self, topic: str) -> None:
        """Remove a topic's meters: it has no leader here any more, or its last partition was removed (R2.9, R4.3)."""
        if self._topic_meters.pop(topic, None) is not None:
            for name in LEADER_METERS:
                self.registry.remove("kafka.server", _TOPIC_METRICS, name, topic=topic)

    def change_status(self, tp: TopicPartition, old: PartitionStatus, new: PartitionStatus) -> None:
        """Move the broker's counters and the partition's gauges from the old status to the new."""
        for field, gauge in self._status_gauges.items():
            difference = int(getattr(new, field)) - int(getattr(old, field))
            if difference:
                gauge.inc(difference)
        self._statuses[tp] = new

    def add_partition(self, tp: TopicPartition) -> None:
        """Add the gauges of a hosted partition, all 0 until it is led here."""
        self._statuses[tp] = IDLE

    def drop_partition(self, tp: TopicPartition, last: PartitionStatus) -> None:
        """Remove the gauges of a partition that was deleted or went offline."""
        self.change_status(tp, last, IDLE)
        del self._statuses[tp]
        self.registry.remove(*_PRODUCE_EXPIRIES, **_tags(tp))

    def record_expired_produces(self, partitions: Iterable[TopicPartition]) -> None:
        """Count partitions whose records were not replicated within a producer's timeout."""
        for tp in partitions:
            self.expired_produces.mark()
            if self._per_partition:
                self.registry.meter(*_PRODUCE_EXPIRIES, **_tags(tp)).mark()

    def _read(self, field: str) -> Samples:
        for tp, status in [*self._statuses.items()]:
            yield _tags(tp), int(getattr(status, field))


def _tags(tp: TopicPartition) -> dict[str, str]:
    return {"topic": tp.topic, "partition": str(tp.partition)}
