"""What the brokers' answers say about each partition: who has which records, and the newest leadership known.

Answers are grouped by topic id: a log of an earlier topic of the same name says nothing about the present one.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from cluster.model.broker import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from cluster.model.partition import ReplicaAssignment
from cluster.requests.recovery import DescribedReplica, DescribeReplicasResponse, KnownLeadership

Answers = Mapping[BrokerId, DescribeReplicasResponse]


class FoundReplica(Struct, frozen=True):
    """The log of one replica. It has all records of every other one whose (log_epoch, log_end_offset) is lower."""

    broker: BrokerId
    log_epoch: LeaderEpoch
    log_end_offset: Offset

    @property
    def position(self) -> tuple[int, int]:
        return self.log_epoch, self.log_end_offset


class PartitionEvidence(Struct):
    """One partition of one topic. `newest`: the leadership with the highest epochs, None if no broker knows one.

    `leader_epoch`, `partition_epoch`: the highest that any broker has seen, -1 none.
    """

    replicas: dict[BrokerId, FoundReplica]
    newest: KnownLeadership | None = None
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)

    def add_replica(self, broker: BrokerId, replica: DescribedReplica) -> None:
        self.replicas[broker] = FoundReplica(broker, replica.log_epoch, replica.log_end_offset)
        self.leader_epoch = max(self.leader_epoch, replica.leader_epoch, replica.log_epoch)

    def add_leadership(self, known: KnownLeadership) -> None:
        """Add what a broker knows. Among equal epochs the leader's own counts: it alone knows what is being
        reassigned.
        """
        self.leader_epoch = max(self.leader_epoch, known.leader_epoch)
        self.partition_epoch = max(self.partition_epoch, known.partition_epoch)
        if self.newest is None or _rank(known) > _rank(self.newest):
            self.newest = known

    def assignment(self, listed: ReplicaAssignment) -> ReplicaAssignment:
        """The newest assignment known; else the one listed in ZooKeeper; else the brokers that have a replica."""
        newest = self.newest
        if newest is not None and newest.replicas:
            # Only the leader knows what is being reassigned.
            is_listed = newest.replicas == listed.replicas
            known = ReplicaAssignment(newest.replicas, newest.adding_replicas, newest.removing_replicas)
            return listed if is_listed else known
        return listed if listed.replicas else ReplicaAssignment(tuple(sorted(self.replicas)))

    def candidates(self, assignment: ReplicaAssignment) -> list[FoundReplica]:
        """The replicas that may lead: those that were found on assigned brokers."""
        return [self.replicas[b] for b in assignment.replicas if b in self.replicas]


class TopicEvidence(Struct):
    """One topic. `topic_id` None: the logs have none."""

    topic_id: TopicId | None
    partitions: dict[int, PartitionEvidence]

    @property
    def has_records(self) -> bool:
        return any(r.log_end_offset > 0 for p in self.partitions.values() for r in p.replicas.values())

    @property
    def has_replicas(self) -> bool:
        return any(p.replicas for p in self.partitions.values())


def collect(answers: Answers) -> dict[str, dict[TopicId | None, TopicEvidence]]:
    """Topic name -> topic id -> what the brokers know."""
    found: dict[str, dict[TopicId | None, TopicEvidence]] = {}
    for broker, answer in sorted(answers.items()):
        for replica in answer.replicas:
            _partition(found, replica).add_replica(broker, replica)
        for leadership in answer.leaderships:
            _partition(found, leadership).add_leadership(leadership)
    return found


def merged(parts: Iterable[TopicEvidence], topic_id: TopicId | None) -> TopicEvidence:
    """The evidence of several groups as that of one topic: of those with its id, and of those without any."""
    whole = TopicEvidence(topic_id, {})
    for part in parts:
        for number, partition in part.partitions.items():
            into = whole.partitions.setdefault(number, PartitionEvidence({}))
            into.replicas |= partition.replicas
            into.leader_epoch = max(into.leader_epoch, partition.leader_epoch)
            into.partition_epoch = max(into.partition_epoch, partition.partition_epoch)
            if partition.newest is not None:
                into.add_leadership(partition.newest)
    return whole


def _partition(
    found: dict[str, dict[TopicId | None, TopicEvidence]], item: DescribedReplica | KnownLeadership
) -> PartitionEvidence:
    of_name = found.setdefault(item.topic, {})
    topic = of_name.setdefault(item.topic_id, TopicEvidence(item.topic_id, {}))
    return topic.partitions.setdefault(item.partition, PartitionEvidence({}))


def _rank(known: KnownLeadership) -> tuple[int, int, int]:
    return known.leader_epoch, known.partition_epoch, len(known.adding_replicas) + len(known.removing_replicas)
