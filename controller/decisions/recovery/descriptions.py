"""A planned recovery in the types of the API."""

from cluster.model.broker import NO_LEADER, NO_LEADER_EPOCH, PartitionEpoch
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment
from cluster.requests.plans import DescribedPartition
from cluster.requests.recovery import ClusterRecovery, RecoveredPartition
from controller.decisions.recovery.plan import RecoveryPlan, RestoredCluster


def described_recovery(restored: RestoredCluster, plan: RecoveryPlan) -> ClusterRecovery:
    return ClusterRecovery(
        tuple(
            RecoveredPartition(
                topic.topic,
                _described(p.topic_partition.partition, p.before, p.old_assignment),
                _described(p.topic_partition.partition, p.after, p.assignment),
                p.last_isr,
                p.absent,
                p.log_end_offset,
            )
            for topic in plan.topics
            for p in topic.partitions
        ),
        plan.only_on_brokers,
        plan.only_in_zookeeper,
        restored.silent,
        plan.refusals,
        plan.controller_epoch,
        plan.last_producer_id,
    )


def _described(partition: int, state: LeaderAndIsr | None, assignment: ReplicaAssignment) -> DescribedPartition:
    return DescribedPartition(
        partition,
        NO_LEADER if state is None else state.leader,
        NO_LEADER_EPOCH if state is None else state.leader_epoch,
        PartitionEpoch(-1) if state is None else state.partition_epoch,
        () if state is None else state.isr,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
    )
