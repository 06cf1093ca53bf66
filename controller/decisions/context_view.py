"""The read-only view of the controller context for decisions."""

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

    def brokers(self) -> Sequence[BrokerId]:
        """Brokers that do not lead all partitions they are the preferred replica of, sorted by id."""

    def meant_to_lead(self, broker: BrokerId) -> int:
        """Number of partitions that the broker is the preferred replica of."""

    def led_by_others(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """Those of them whose leader is not the broker."""


class ContextView(Protocol):
    """The cluster state as the active controller knows it. Unknown partitions have an empty assignment (CX-8)."""

    @property
    def epoch(self) -> ControllerEpoch: ...

    @property
    def topics(self) -> AbstractSet[str]: ...

    @property
    def topic_ids(self) -> Mapping[str, TopicId]: ...

    @property
    def topic_names(self) -> Mapping[TopicId, str]: ...

    @property
    def brokers(self) -> Mapping[BrokerId, Broker]:
        """Every registered broker that supports the finalized features."""

    @property
    def broker_epochs(self) -> Mapping[BrokerId, BrokerEpoch]: ...

    @property
    def live_broker_ids(self) -> frozenset[BrokerId]:
        """Registered brokers that are not shutting down (CX-1)."""

    @property
    def live_or_shutting_down_ids(self) -> frozenset[BrokerId]: ...

    @property
    def shutting_down(self) -> AbstractSet[BrokerId]: ...

    @property
    def shutting_down_since(self) -> Mapping[BrokerId, int]:
        """Broker that is shutting down -> when it asked, in ms of the wall clock."""
        ...

    @property
    def assignments(self) -> Mapping[str, Mapping[int, ReplicaAssignment]]:
        """Topic -> partition -> replica assignment."""

    @property
    def leaderships(self) -> Mapping[TopicPartition, LeaderAndIsr]: ...

    @property
    def topics_to_be_deleted(self) -> AbstractSet[str]: ...

    @property
    def topics_ineligible_for_deletion(self) -> AbstractSet[str]:
        """Queued topics whose deletion is blocked at present."""

    @property
    def topics_with_deletion_started(self) -> AbstractSet[str]: ...

    @property
    def partitions_being_reassigned(self) -> AbstractSet[TopicPartition]: ...

    @property
    def preferred_leaders(self) -> PreferredLeadersView: ...

    def partitions_of(self, topic: str) -> Sequence[TopicPartition]: ...

    def partitions_on_broker(self, broker: BrokerId) -> Sequence[TopicPartition]:
        """All partitions with a replica on the broker, including those being added or removed (CX-3)."""

    def replicas_by_state(self, topic: str) -> Mapping[ReplicaState, int]:
        """Number of replicas in each state, for a topic queued for deletion."""

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment: ...

    def online_brokers(self, tp: TopicPartition, *, include_shutting_down: bool = False) -> frozenset[BrokerId]:
        """Brokers on which a replica of this partition is online: live, its log directory online (CX-2), and nothing of
        an earlier topic of the name left (D-99).
        """

    @property
    def brokers_given_up(self) -> AbstractSet[BrokerId]:
        """Brokers that have been away for so long that topic deletions do not wait for them (D-98)."""

    @property
    def left_replicas(self) -> Mapping[BrokerId, Mapping[str, LeftReplicas]]:
        """Broker -> deleted topic -> what it still has of it."""

    def has_left_replicas(self, broker: BrokerId, topic: str) -> bool:
        """Whether the broker still has replicas of a deleted topic of this name (D-99)."""

    def electable_brokers(self, tp: TopicPartition) -> frozenset[BrokerId]:
        """Those of `online_brokers` whose replica is not held back because it is damaged (D-41)."""

    def held_replicas(self, broker: BrokerId) -> Mapping[TopicPartition, HeldReplica]:
        """Damaged replicas on the broker that are not to be elected at present."""

    @property
    def controllers(self) -> AbstractSet[BrokerId]:
        """Ids of controllers, which host no replicas; listed only where the brokers are Kafka's."""

    @property
    def not_admitted(self) -> Mapping[BrokerId, str]: ...

    @property
    def awaited_reports(self) -> Mapping[BrokerId, AwaitedReport]:
        """Registered brokers that have not joined, because they have not named their damaged replicas yet (D-42)."""

    def partition_state(self, tp: TopicPartition) -> PartitionState: ...

    def leader_epoch_for_stop(self, tp: TopicPartition) -> LeaderEpoch:
        """The leader epoch for a StopReplica: -2 while the topic is queued for deletion, -1 without one (CX-7)."""

    def replica_state(self, broker: BrokerId, tp: TopicPartition) -> ReplicaState: ...
