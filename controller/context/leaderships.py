"""The leaderships and states of partitions, with indexes for what event handlers look up.

Invariant, whenever no method is running: indexes and counters agree with the data they are derived from (INV-10).
Ordered sets are dicts with None values, for a deterministic iteration order. Source: Kafka ControllerContext.
"""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import repeat
from typing import assert_never

from cluster.model.broker import LEADER_EPOCH_DURING_DELETE, NO_LEADER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState
from controller import changes
from controller.context.brokers import BrokerControl
from controller.context.deletions import DeletionControl
from controller.context.topics import TopicControl


class LeadershipControl:
    """Leaderships, states of the partition state machine, and what is counted of both."""

    def __init__(self, topics: TopicControl, deletions: DeletionControl, brokers: BrokerControl) -> None:
        self._topics, self._deletions, self._brokers = topics, deletions, brokers
        self.known: dict[TopicPartition, LeaderAndIsr] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        # Invariant: both equal `recount()` whenever no method of the context is running (INV-10).
        self.offline_partition_count = 0
        self.preferred_replica_imbalance_count = 0
        self.preferred_leaders = PreferredLeaders()
        self._led_by: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._awaiting_leader: dict[TopicPartition, None] = {}

    def apply(self, change: changes.LeadershipsChange) -> None:
        """Take a change into memory, with all indexes that depend on leaderships."""
        match change:
            case changes.LeadershipsRead(leaderships) | changes.LeadershipsWritten(leaderships):
                self._set_leaderships(leaderships)
            case changes.LeadersElected(leaderships):
                self._set_leaderships(leaderships)
                self._set_states(zip(leaderships, repeat(PartitionState.ONLINE)))
            case changes.PartitionsMoved(targets):
                self._set_states(targets.items())
            case changes.AssignmentsRead() | changes.ReassignmentsWritten() | changes.ReassignmentsCompleted():
                self._uncount(change.assignments)
                for tp, assignment in change.assignments.items():
                    self._count(tp, assignment, +1)
            case changes.DeletionsQueued(topics):
                # They no longer count towards the preferred-replica imbalance (CX-11).
                self._uncount(self._partitions(topics))
            case changes.DeletionsStarted(topics):
                # From now on their partitions do not count as offline (CX-20).
                for topic in set(topics) - self._deletions.started:
                    self.offline_partition_count -= sum(map(self._is_offline, self._topics.partitions_of(topic)))
            case changes.TopicsRemoved(topics):
                self._remove(self._partitions(topics))
            case _:
                assert_never(change)

    def _set_leaderships(self, leaderships: changes.Leaderships) -> None:
        known, led_by = self.known, self._led_by
        for tp, leadership in leaderships.items():
            old = known.get(tp)
            if old is None or old.leader != leadership.leader:
                if old is not None:
                    del led_by[old.leader][tp]
                led_by.setdefault(leadership.leader, {})[tp] = None
                was_offline = self._is_offline(tp)
                known[tp] = leadership
                # Without a state, as when a controller has just read it, it is neither offline nor waits for a leader.
                if tp in self.partition_states:
                    self._follow_offline(tp, was_offline)
            else:
                known[tp] = leadership
            assignment = self._topics.assignment(tp)
            if _is_led_as_preferred(assignment, leadership) and (old is None or old.leader == leadership.leader):
                # Nearly all partitions: neither was counted before, nor is now.
                continue
            self._count_imbalance(tp, assignment, old, -1)
            self._count_imbalance(tp, assignment, leadership, +1)

    def partitions_with_leaders(self) -> list[TopicPartition]:
        """Partitions with a leadership, even with leader -1, whose topic is not queued for deletion (CX-4)."""
        queued = self._deletions.queued
        return [tp for tp in self.known if tp.topic not in queued] if queued else list(self.known)

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """The partitions of `partitions_with_leaders` whose leader's replica is not online (CX-5)."""
        found: list[TopicPartition] = []
        for broker in sorted(self._led_by):
            led = self._led_by[broker]
            if broker in self._brokers.live_ids:
                failed = self._brokers.offline_directories.get(broker, ())
                found.extend(tp for tp in led if tp in failed)
            else:
                found.extend(led)
        return [tp for tp in found if tp.topic not in self._deletions.queued]

    def partition_leaders_on_broker(self, broker: BrokerId) -> list[TopicPartition]:
        """Partitions led by the broker that have another replica to lead them (CX-6)."""
        return [
            tp
            for tp in self._led_by.get(broker, ())
            if tp.topic not in self._deletions.queued and len(self._topics.assignment(tp).replicas) > 1
        ]

    def partitions_awaiting_leader(self) -> list[TopicPartition]:
        """Partitions in OfflinePartition or NewPartition, or in OnlinePartition without a leader (D-97), whose topic is
        not queued for deletion.
        """
        return [tp for tp in self._awaiting_leader if tp.topic not in self._deletions.queued]

    def leader_epoch_for_stop(self, tp: TopicPartition) -> LeaderEpoch:
        """The leader epoch for a StopReplica: -2 during deletion, else the known epoch, -1 if there is none (CX-7)."""
        if tp.topic in self._deletions.queued:
            return LEADER_EPOCH_DURING_DELETE
        leadership = self.known.get(tp)
        return NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch

    def partition_state(self, tp: TopicPartition) -> PartitionState:
        """The state of a partition in its state machine; NonExistentPartition if it is unknown."""
        return self.partition_states.get(tp, PartitionState.NON_EXISTENT)

    def _set_states(self, states: Iterable[tuple[TopicPartition, PartitionState]]) -> None:
        known = self.known
        for tp, state in states:
            if state is PartitionState.ONLINE and tp not in self.partition_states:
                leadership = known.get(tp)
                if leadership is not None and leadership.leader != NO_LEADER:
                    # Nearly all partitions, when a controller becomes active: not offline before, nor now.
                    self.partition_states[tp] = state
                    continue
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
        leadership = self.known.get(tp)
        return leadership is not None and leadership.leader == NO_LEADER

    def _follow_offline(self, tp: TopicPartition, was_offline: bool) -> None:
        is_offline = self._is_offline(tp)
        if tp.topic not in self._deletions.started:
            self.offline_partition_count += is_offline - was_offline
        if is_offline or self.partition_states.get(tp) is PartitionState.NEW:
            self._awaiting_leader[tp] = None
        else:
            self._awaiting_leader.pop(tp, None)

    def _remove(self, partitions: list[TopicPartition]) -> None:
        self._set_states(zip(partitions, repeat(PartitionState.NON_EXISTENT)))
        self._uncount(partitions)
        for tp in partitions:
            del self.partition_states[tp]
            leadership = self.known.pop(tp, None)
            if leadership is not None:
                del self._led_by[leadership.leader][tp]

    def _partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [tp for topic in dict.fromkeys(topics) for tp in self._topics.partitions_of(topic)]

    def _uncount(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._count(tp, self._topics.assignment(tp), -1)

    def _count(self, tp: TopicPartition, assignment: ReplicaAssignment, sign: int) -> None:
        """Add (+1) or remove (-1) a partition with this assignment to what is counted; not of queued topics."""
        if assignment.replicas and tp.topic not in self._deletions.queued:
            self.preferred_leaders.count(assignment.replicas[0], sign)
            self._count_imbalance(tp, assignment, self.known.get(tp), sign)

    def _count_imbalance(
        self, tp: TopicPartition, assignment: ReplicaAssignment, leadership: LeaderAndIsr | None, sign: int
    ) -> None:
        if leadership is None or _is_led_as_preferred(assignment, leadership) or tp.topic in self._deletions.queued:
            return
        if is_imbalanced(assignment, leadership):
            self.preferred_replica_imbalance_count += sign
        if assignment.replicas and leadership.leader != assignment.replicas[0]:
            self.preferred_leaders.mark(assignment.replicas[0], tp, sign)

    def copy_to(self, copy: "LeadershipControl", topics: Iterable[str]) -> None:
        """Copy the partitions of these topics into the context of a rehearsal; their assignments were copied before."""
        partitions = self._partitions(topics)
        for tp in partitions:
            copy._count(tp, self._topics.assignment(tp), +1)
        copy._set_leaderships({tp: self.known[tp] for tp in partitions if tp in self.known})
        copy._set_states((tp, self.partition_states[tp]) for tp in partitions if tp in self.partition_states)


class PreferredLeaders:
    """Partitions by preferred replica, which is the first of the assignment; without topics queued for deletion.

    The imbalance check runs every few minutes for every broker and must not scan all partitions (EP-21). Source: Kafka
    KafkaController.checkAndTriggerAutoLeaderRebalance, which groups all partitions each time.

    Invariant: equal to an index built from all assignments and leaderships, whenever the context is consistent. Ordered
    sets are dicts with None values.
    """

    def __init__(self) -> None:
        self._meant_to_lead: Counter[BrokerId] = Counter()
        self._led_by_others: dict[BrokerId, dict[TopicPartition, None]] = {}

    def count(self, preferred: BrokerId, sign: int) -> None:
        """Add (+1) or remove (-1) a partition that has this preferred replica."""
        self._meant_to_lead[preferred] += sign

    def mark(self, preferred: BrokerId, tp: TopicPartition, sign: int) -> None:
        """Add (+1) or remove (-1) a partition whose leader is not its preferred replica."""
        if sign > 0:
            self._led_by_others.setdefault(preferred, {})[tp] = None
        else:
            del self._led_by_others[preferred][tp]

    def brokers(self) -> list[BrokerId]:
        """Brokers that do not lead all partitions they are the preferred replica of, sorted by id."""
        return sorted(broker for broker, led_by_others in self._led_by_others.items() if led_by_others)

    def meant_to_lead(self, broker: BrokerId) -> int:
        """Number of partitions that the broker is the preferred replica of, with a leadership or without."""
        return self._meant_to_lead[broker]

    def led_by_others(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """The partitions among them whose leader is not the broker, in the order in which it lost them."""
        return self._led_by_others.get(broker, {}).keys()

    def __eq__(self, other: object) -> bool:
        """Equal contents, whatever the order."""
        return isinstance(other, PreferredLeaders) and self._as_counts() == other._as_counts()

    __hash__ = None  # type: ignore[assignment]  # It changes all the time.

    def _as_counts(self) -> dict[BrokerId, tuple[int, set[TopicPartition]]]:
        return {b: (size, set(self.led_by_others(b))) for b, size in self._meant_to_lead.items() if size}


def _is_led_as_preferred(assignment: ReplicaAssignment, leadership: LeaderAndIsr) -> bool:
    return not assignment.adding and leadership.leader in assignment.replicas[:1]


def is_imbalanced(assignment: ReplicaAssignment, leadership: LeaderAndIsr) -> bool:
    """Whether the leader is not the preferred replica (CX-21).

    A preferred replica that a reassignment is still adding does not count until it is in the ISR.
    """
    if not assignment.replicas:
        return False
    preferred = assignment.replicas[0]
    if preferred in assignment.adding:
        return preferred in leadership.isr
    return leadership.leader != preferred
