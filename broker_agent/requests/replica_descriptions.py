"""Describes every replica of this agent, and the newest leadership it knows of each partition, for a recovery.

Sources, each newer than nothing but never trusted above its epochs: the partitions led here, the metadata cache, and
the state-change log, which outlives a restart.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from broker_agent.decisions.known_leaderships import (
    KnownReplica,
    highest_epoch,
    newest,
    recorded_controller_epoch,
    recorded_leaderships,
)
from broker_agent.decisions.restored_zookeeper import RestoredZooKeeper
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.producer_ids import ProducerIds
from cluster.aio.slices import in_slices
from cluster.model.broker import ControllerEpoch, TopicId
from cluster.requests.recovery import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    KnownLeadership,
)
from state_log.record import LoggedStateChange

RecordedRoles = Callable[[], Awaitable[Sequence[LoggedStateChange]]]
"""Reads this node's own state-change log: the records of roles, the newest of each partition at least."""


class ReplicaDescriptions:
    """Answers DescribeReplicas."""

    def __init__(
        self,
        manager: ReplicaManager,
        known_controller_epoch: Callable[[], ControllerEpoch],
        recorded: RecordedRoles,
        restored: RestoredZooKeeper,
        producer_ids: ProducerIds,
    ) -> None:
        self._manager = manager
        self._known_controller_epoch = known_controller_epoch
        self._recorded = recorded
        self._restored = restored
        self._producer_ids = producer_ids

    async def describe(self, request: DescribeReplicasRequest) -> DescribeReplicasResponse:
        recorded = await self._recorded()
        leaderships = newest((*self._led(), *self._in_metadata(), *recorded_leaderships(recorded)))
        logs = self._manager.logs.all_logs()
        replicas: list[DescribedReplica] = []
        async for tp, log in in_slices(sorted(logs.items())):
            hosted = self._manager.online(tp)
            known = leaderships.get(KnownReplica(tp.topic, log.topic_id, tp.partition))
            replicas.append(
                DescribedReplica(
                    tp.topic,
                    log.topic_id,
                    tp.partition,
                    leader_epoch=highest_epoch(
                        None if hosted is None else hosted.leader_epoch,
                        log.latest_epoch,
                        None if known is None else known.leader_epoch,
                    ),
                    log_epoch=highest_epoch(log.latest_epoch),
                    log_end_offset=log.log_end_offset,
                    high_watermark=log.high_watermark,
                )
            )
        controller_epoch = max(self._known_controller_epoch(), recorded_controller_epoch(recorded))
        if request.recovers:
            self._restored.recovers(controller_epoch)
        return DescribeReplicasResponse(
            self._manager.own_id,
            controller_epoch,
            # Those in reserve are in no log yet, and must not be allocated to another broker.
            max((self._producer_ids.highest, *(log.highest_producer_id for log in logs.values()))),
            tuple(replicas),
            tuple(leaderships.values()),
        )

    def _led(self) -> Iterator[KnownLeadership]:
        """The partitions led here: nobody knows a newer ISR, and nobody else knows what is being reassigned."""
        for partition in self._manager.online_partitions():
            if partition.is_leader and partition.log is not None:
                tp, assignment = partition.topic_partition, partition.assignment
                yield KnownLeadership(
                    tp.topic,
                    partition.log.topic_id,
                    tp.partition,
                    partition.leader_id,
                    partition.leader_epoch,
                    partition.partition_epoch,
                    partition.isr,
                    assignment.replicas,
                    assignment.adding,
                    assignment.removing,
                )

    def _in_metadata(self) -> Iterator[KnownLeadership]:
        snapshot = self._manager.metadata.snapshot
        for topic, partitions in snapshot.topics.items():
            topic_id: TopicId | None = snapshot.topic_ids.get(topic)
            for number, state in partitions.items():
                yield KnownLeadership(
                    topic,
                    topic_id,
                    number,
                    state.leader,
                    state.leader_epoch,
                    state.zk_version,
                    state.isr,
                    state.replicas,
                )
