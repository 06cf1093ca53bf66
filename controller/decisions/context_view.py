"""The read-only view of the controller context for decisions: one protocol for each of its parts.

What is not said here of a member is said in the part, `controller.context`.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from cluster.model.broker import Broker, BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.znodes.left_replicas import LeftReplicas
from controller.decisions.brokers.known_damage import AwaitedReport, HeldReplica


class PreferredLeadersView(Protocol):
    """Partitions by preferred replica, without topics queued for deletion."""

    def brokers(self) -> Sequence[BrokerId]: ...

    def meant_to_lead(self, broker: BrokerId) -> int: ...

    def led_by_others(self, broker: BrokerId) -> AbstractSet[TopicPartition]: ...


class BrokersView(Protocol):
    """Registered brokers."""

    @property
    def registered(self) -> Mapping[BrokerId, Broker]:
        """Every registered broker that supports the finalized features."""

    @property
    def epochs(self) -> Mapping[BrokerId, BrokerEpoch]: ...

    @property
    def live_ids(self) -> frozenset[BrokerId]:
        """Registered brokers that are not shutting down (CX-1)."""

    @property
    def registered_ids(self) -> frozenset[BrokerId]: ...

    @property
    def shutting_down(self) -> AbstractSet[BrokerId]: ...

    @property
    def shutting_down_since(self) -> Mapping[BrokerId, int]: ...

    @property
    def controllers(self) -> AbstractSet[BrokerId]: ...

    @property
    def not_admitted(self) -> Mapping[BrokerId, str]: ...

    def online_for(self, tp: TopicPartition, *, include_shutting_down: bool = False) -> frozenset[BrokerId]: ...


class TopicsView(Protocol):
    """Topics and assignments. Unknown partitions have an empty assignment (CX-8)."""

    @property
    def names(self) -> AbstractSet[str]: ...

    @property
    def ids(self) -> Mapping[str, TopicId]: ...

    @property
    def names_by_id(self) -> Mapping[TopicId, str]: ...

    @property
    def assignments(self) -> Mapping[str, Mapping[int, ReplicaAssignment]]:
        """Topic -> partition -> replica assignment."""

    @property
    def being_reassigned(self) -> AbstractSet[TopicPartition]: ...

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment: ...

    def partitions_of(self, topic: str) -> Sequence[TopicPartition]: ...

    def partitions_on(self, broker: BrokerId) -> Sequence[TopicPartition]: ...


class LeadershipsView(Protocol):
    """Leaderships and states of partitions."""

    @property
    def known(self) -> Mapping[TopicPartition, LeaderAndIsr]: ...

    @property
    def preferred_leaders(self) -> PreferredLeadersView: ...

    def partition_state(self, tp: TopicPartition) -> PartitionState: ...

    def leader_epoch_for_stop(self, tp: TopicPartition) -> LeaderEpoch: ...


class ReplicasView(Protocol):
    """States of replicas."""

    def state(self, broker: BrokerId, tp: TopicPartition) -> ReplicaState: ...

    def states_on(self, broker: BrokerId, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ReplicaState]:
        """The states of the replicas of these partitions on a broker, in a dict of the caller's own."""

    def by_state(self, topic: str) -> Mapping[ReplicaState, int]: ...


class DeletionsView(Protocol):
    """Topics queued for deletion, and what brokers that are away still have of deleted ones."""

    @property
    def queued(self) -> AbstractSet[str]: ...

    @property
    def ineligible(self) -> AbstractSet[str]: ...

    @property
    def started(self) -> AbstractSet[str]: ...

    @property
    def brokers_given_up(self) -> AbstractSet[BrokerId]: ...

    @property
    def left_replicas(self) -> Mapping[BrokerId, Mapping[str, LeftReplicas]]: ...

    def has_left_replicas(self, broker: BrokerId, topic: str) -> bool: ...


class DamageView(Protocol):
    """Damaged replicas."""

    @property
    def awaited_reports(self) -> Mapping[BrokerId, AwaitedReport]: ...

    def electable_brokers(self, tp: TopicPartition) -> frozenset[BrokerId]: ...

    def held_on(self, broker: BrokerId) -> Mapping[TopicPartition, HeldReplica]: ...


class ContextView(Protocol):
    """The cluster state as the active controller knows it."""

    @property
    def epoch(self) -> ControllerEpoch: ...

    @property
    def brokers(self) -> BrokersView: ...

    @property
    def topics(self) -> TopicsView: ...

    @property
    def leaderships(self) -> LeadershipsView: ...

    @property
    def replicas(self) -> ReplicasView: ...

    @property
    def deletions(self) -> DeletionsView: ...

    @property
    def damage(self) -> DamageView: ...
