"""The topics and partitions of the controller context, with indexes for what event handlers look up.

Invariant, whenever no method is running: indexes and counters agree with the data they are derived from (INV-10).
Ordered sets are dicts with None values, for a deterministic iteration order. Source: Kafka ControllerContext.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from cluster.model.broker import (
    LEADER_EPOCH_DURING_DELETE,
    NO_LEADER,
    NO_LEADER_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    ZkVersion,
)
from cluster.model.errors import ClusterError
from cluster.model.partition import EMPTY_ASSIGNMENT, LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller.broker_image import BrokerImage
from controller.changes import Assignments
from controller.preferred_leaders import PreferredLeaders, is_imbalanced


class TopicIdConflictError(ClusterError):
    """A topic id conflicts with a known one: the topic has another id, or the id belongs to another topic (CX-9)."""


class PartitionImage(BrokerImage):
    """Topics, assignments, leaderships, states and deletions. Changed only by `ControllerContext.apply`."""

    def __init__(self, epoch: ControllerEpoch, epoch_zk_version: ZkVersion) -> None:
        super().__init__()
        self.epoch = epoch
        self.epoch_zk_version = epoch_zk_version
        self.topics: set[str] = set()
        self.topic_ids: dict[str, TopicId] = {}
        self.topic_names: dict[TopicId, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leaderships: dict[TopicPartition, LeaderAndIsr] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[BrokerId, dict[TopicPartition, ReplicaState]] = {}
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        # Invariant: both equal `recount()` whenever no method of this class is running (INV-10).
        self.offline_partition_count = 0
        self.preferred_replica_imbalance_count = 0
        self.preferred_leaders = PreferredLeaders()
        self._led_by: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._hosted_by: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._awaiting_leader: dict[TopicPartition, None] = {}
        self._deleting: dict[str, Counter[ReplicaState]] = {}
        """Topic queued for deletion -> number of its replicas in each state."""

    # Topics and assignments

    def _add_topic_id(self, topic: str, topic_id: TopicId) -> None:
        known_id, known_topic = self.topic_ids.get(topic, topic_id), self.topic_names.get(topic_id, topic)
        if topic not in self.topics or known_id != topic_id or known_topic != topic:
            raise TopicIdConflictError(f"topic {topic} id {topic_id}: known are id {known_id}, topic {known_topic}")
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """The replica assignment of a partition; empty for an unknown partition (CX-8)."""
        of_topic = self.assignments.get(tp.topic)
        return EMPTY_ASSIGNMENT if of_topic is None else of_topic.get(tp.partition, EMPTY_ASSIGNMENT)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, p) for p in self.assignments.get(topic, ())]

    def _set_assignments(self, assignments: Assignments) -> None:
        for tp, assignment in assignments.items():
            self._set_assignment(tp, assignment)

    def _set_assignment(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        of_topic = self.assignments.setdefault(tp.topic, {})
        old = of_topic.get(tp.partition, EMPTY_ASSIGNMENT)
        of_topic[tp.partition] = assignment
        self._count_imbalance(tp, old, self.leaderships.get(tp), -1)
        self._count_imbalance(tp, assignment, self.leaderships.get(tp), +1)
        self._count_preferred(tp, old, -1)
        self._count_preferred(tp, assignment, +1)
        self._count_replicas(tp, old, -1)
        self._count_replicas(tp, assignment, +1)
        for broker in old.replicas:
            if broker not in assignment.replicas:
                del self._hosted_by[broker][tp]
        for broker in assignment.replicas:
            self._hosted_by.setdefault(broker, {})[tp] = None

    def partitions_on_broker(self, broker: BrokerId) -> list[TopicPartition]:
        """All partitions whose full replica list contains the broker (CX-3)."""
        return list(self._hosted_by.get(broker, ()))

    def hosting_brokers(self) -> list[BrokerId]:
        """Every broker that is in some assignment, registered or not, sorted by id."""
        return sorted(broker for broker, hosted in self._hosted_by.items() if hosted)

    # Leadership

    def _set_leaderships(self, leaderships: Mapping[TopicPartition, LeaderAndIsr]) -> None:
        known, led_by = self.leaderships, self._led_by
        for tp, leadership in leaderships.items():
            old = known.get(tp)
            was_offline = self._is_offline(tp)
            known[tp] = leadership
            if self.damage_reports:
                self._release_replaced(tp, leadership)
            if old is None or old.leader != leadership.leader:
                if old is not None:
                    del led_by[old.leader][tp]
                led_by.setdefault(leadership.leader, {})[tp] = None
                self._follow_offline(tp, was_offline)
            assignment = self.assignment(tp)
            self._count_imbalance(tp, assignment, old, -1)
            self._count_imbalance(tp, assignment, leadership, +1)

    def partitions_with_leaders(self) -> list[TopicPartition]:
        """Partitions with a leadership, even with leader -1, whose topic is not queued for deletion (CX-4)."""
        queued = self.topics_to_be_deleted
        return [tp for tp in self.leaderships if tp.topic not in queued] if queued else list(self.leaderships)

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """Those of `partitions_with_leaders` whose leader's replica is not online (CX-5)."""
        found: list[TopicPartition] = []
        for broker in sorted(self._led_by):
            led = self._led_by[broker]
            if broker in self._live:
                failed = self.offline_directories.get(broker, ())
                found.extend(tp for tp in led if tp in failed)
            else:
                found.extend(led)
        return [tp for tp in found if tp.topic not in self.topics_to_be_deleted]

    def partition_leaders_on_broker(self, broker: BrokerId) -> list[TopicPartition]:
        """Partitions led by the broker that have another replica to lead them (CX-6)."""
        return [
            tp
            for tp in self._led_by.get(broker, ())
            if tp.topic not in self.topics_to_be_deleted and len(self.assignment(tp).replicas) > 1
        ]

    def leader_epoch_for_stop(self, tp: TopicPartition) -> LeaderEpoch:
        """The leader epoch for a StopReplica: -2 during deletion, else the known epoch, -1 if there is none (CX-7)."""
        if tp.topic in self.topics_to_be_deleted:
            return LEADER_EPOCH_DURING_DELETE
        leadership = self.leaderships.get(tp)
        return NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch

    # States

    def partition_state(self, tp: TopicPartition) -> PartitionState:
        return self.partition_states.get(tp, PartitionState.NON_EXISTENT)

    def _set_partition_state(self, tp: TopicPartition, state: PartitionState) -> None:
        was_offline = self._is_offline(tp)
        self.partition_states[tp] = state
        self._follow_offline(tp, was_offline)

    def _is_offline(self, tp: TopicPartition) -> bool:
        """Whether nobody leads the partition: it is in OfflinePartition, or in OnlinePartition with leader -1, as after
        the removal of its leader (D-97).
        """
        state = self.partition_states.get(tp)
        if state is not PartitionState.ONLINE:
            return state is PartitionState.OFFLINE
        leadership = self.leaderships.get(tp)
        return leadership is not None and leadership.leader == NO_LEADER

    def _follow_offline(self, tp: TopicPartition, was_offline: bool) -> None:
        is_offline = self._is_offline(tp)
        if tp.topic not in self.topics_with_deletion_started:
            self.offline_partition_count += is_offline - was_offline
        if is_offline or self.partition_states.get(tp) is PartitionState.NEW:
            self._awaiting_leader[tp] = None
        else:
            self._awaiting_leader.pop(tp, None)

    def partitions_awaiting_leader(self) -> list[TopicPartition]:
        """Partitions in OfflinePartition or NewPartition, or in OnlinePartition without a leader (D-97), whose topic is
        not queued for deletion.
        """
        return [tp for tp in self._awaiting_leader if tp.topic not in self.topics_to_be_deleted]

    def replica_state(self, broker: BrokerId, tp: TopicPartition) -> ReplicaState:
        on_broker = self.replica_states.get(broker)
        return ReplicaState.NON_EXISTENT if on_broker is None else on_broker.get(tp, ReplicaState.NON_EXISTENT)

    def _set_replica_states(self, broker: BrokerId, partitions: Iterable[TopicPartition], state: ReplicaState) -> None:
        states, changed = self.replica_states.setdefault(broker, {}), dict.fromkeys(partitions, state)
        if self._deleting:
            for tp in changed:
                counts = self._deleting.get(tp.topic)
                if counts is not None and broker in self.assignment(tp).replicas:
                    counts[states.get(tp, ReplicaState.NON_EXISTENT)] -= 1
                    counts[state] += 1
        states.update(changed)

    def _forget_replicas(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Remove the state of replicas that were deleted, and their entries in offline log directories.

        The assignment stays until ZooKeeper has one without them, or none.
        """
        states = self.replica_states.get(broker, {})
        for tp in partitions:
            states.pop(tp, None)
            self.forget_disk(broker, tp)

    # Deletion

    def _queue_deletions(self, topics: Iterable[str]) -> None:
        """Queue topics for deletion; they no longer count towards the preferred-replica imbalance (CX-11), and their
        reassignments end (D-1).
        """
        for topic in topics:
            if topic not in self.topics_to_be_deleted:
                for tp in self.partitions_of(topic):
                    self._count_imbalance(tp, self.assignment(tp), self.leaderships.get(tp), -1)
                    self._count_preferred(tp, self.assignment(tp), -1)
                self.topics_to_be_deleted.add(topic)
                self.partitions_being_reassigned.difference_update(self.partitions_of(topic))
                self._follow_replicas(topic)

    def replicas_by_state(self, topic: str) -> Mapping[ReplicaState, int]:
        """Number of replicas in each state, for a topic queued for deletion; a state may be present with 0."""
        return self._deleting[topic]

    def _remove_topic(self, topic: str) -> None:
        """Remove a deleted topic and its states: a new topic of the same name starts without them (CX-10, D-8)."""
        partitions = self.partitions_of(topic)
        self._forget_states(partitions)
        for partition, assignment in self.assignments.pop(topic, {}).items():
            tp = TopicPartition(topic, partition)
            leadership = self.leaderships.pop(tp, None)
            if leadership is not None:
                del self._led_by[leadership.leader][tp]
            self._count_imbalance(tp, assignment, leadership, -1)
            self._count_preferred(tp, assignment, -1)
            for broker in assignment.replicas:
                del self._hosted_by[broker][tp]
        self._deleting.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            del self.topic_names[topic_id]
        self.partitions_being_reassigned.difference_update(partitions)
        for topics in (
            self.topics,
            self.topics_to_be_deleted,
            self.topics_with_deletion_started,
            self.topics_ineligible_for_deletion,
        ):
            topics.discard(topic)

    def _forget_states(self, partitions: Iterable[TopicPartition]) -> None:
        # A broker can have reported the directory of a replica whose state is not known.
        brokers = {*self.replica_states, *self.offline_directories}
        for tp in partitions:
            self._set_partition_state(tp, PartitionState.NON_EXISTENT)
            del self.partition_states[tp]
            for broker in brokers:
                self._forget_replicas(broker, [tp])

    def _start_deletions(self, topics: Iterable[str]) -> None:
        """From now on the partitions of these topics do not count as offline (CX-20)."""
        for topic in topics:
            if topic not in self.topics_with_deletion_started:
                self.offline_partition_count -= sum(map(self._is_offline, self.partitions_of(topic)))
                self.topics_with_deletion_started.add(topic)

    # Counters

    def _follow_replicas(self, topic: str) -> None:
        if topic not in self._deleting:
            self._deleting[topic] = Counter()
            for tp in self.partitions_of(topic):
                self._count_replicas(tp, self.assignment(tp), +1)

    def _count_replicas(self, tp: TopicPartition, assignment: ReplicaAssignment, sign: int) -> None:
        counts = self._deleting.get(tp.topic)
        if counts is not None:
            for broker in assignment.replicas:
                counts[self.replica_state(broker, tp)] += sign

    def _count_imbalance(
        self, tp: TopicPartition, assignment: ReplicaAssignment, leadership: LeaderAndIsr | None, sign: int
    ) -> None:
        if leadership is None or tp.topic in self.topics_to_be_deleted:
            return
        if is_imbalanced(assignment, leadership):
            self.preferred_replica_imbalance_count += sign
        if assignment.replicas and leadership.leader != assignment.replicas[0]:
            self.preferred_leaders.mark(assignment.replicas[0], tp, sign)

    def _count_preferred(self, tp: TopicPartition, assignment: ReplicaAssignment, sign: int) -> None:
        if assignment.replicas and tp.topic not in self.topics_to_be_deleted:
            self.preferred_leaders.count(assignment.replicas[0], sign)
