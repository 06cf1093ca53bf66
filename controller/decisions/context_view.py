"""The questions that decisions may ask of the controller's context; they can change nothing through it."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from cluster.broker import Broker, BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId
from cluster.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.state_machines import ReplicaState


class PreferredLeadersView(Protocol):
    """Partitions by preferred replica; topics queued for deletion left out."""

    def brokers(self) -> Sequence[BrokerId]:
        """Those that do not lead all they were meant to lead, by id."""
        ...

    def meant_to_lead(self, broker: BrokerId) -> int:
        """Of how many partitions the broker is the preferred replica."""
        ...

    def led_by_others(self, broker: BrokerId) -> AbstractSet[TopicPartition]:
        """Of those, the ones with a leadership that is not the broker's."""
        ...


class ContextView(Protocol):
    """What the cluster looks like to the active controller. Unknown partitions have an empty assignment (CX-8)."""

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
        """Every registered, feature-compatible broker."""
        ...

    @property
    def broker_epochs(self) -> Mapping[BrokerId, BrokerEpoch]: ...

    @property
    def live_broker_ids(self) -> frozenset[BrokerId]:
        """Registered and not shutting down (CX-1)."""
        ...

    @property
    def shutting_down(self) -> AbstractSet[BrokerId]: ...

    @property
    def assignments(self) -> Mapping[str, Mapping[int, ReplicaAssignment]]:
        """Topic -> partition -> replicas."""
        ...

    @property
    def leaderships(self) -> Mapping[TopicPartition, LeaderAndIsr]: ...

    @property
    def topics_to_be_deleted(self) -> AbstractSet[str]: ...

    @property
    def deletions_postponed(self) -> AbstractSet[str]:
        """Marked for deletion, but not queued before their partitions have come to where they move (D-1)."""
        ...

    @property
    def topics_marked_for_deletion(self) -> AbstractSet[str]:
        """Queued or postponed; made anew each time it is asked for."""
        ...

    def is_marked_for_deletion(self, topic: str) -> bool: ...

    @property
    def topics_ineligible_for_deletion(self) -> AbstractSet[str]:
        """Those of the queued topics whose deletion is on hold."""
        ...

    @property
    def topics_with_deletion_started(self) -> AbstractSet[str]: ...

    @property
    def partitions_being_reassigned(self) -> AbstractSet[TopicPartition]: ...

    @property
    def preferred_leaders(self) -> PreferredLeadersView: ...

    def partitions_of(self, topic: str) -> Sequence[TopicPartition]: ...

    def partitions_on_broker(self, broker: BrokerId) -> Sequence[TopicPartition]:
        """All partitions that the broker has a replica of, being added or removed ones included (CX-3)."""
        ...

    def replicas_by_state(self, topic: str) -> Mapping[ReplicaState, int]:
        """Of a topic that is marked for deletion."""
        ...

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment: ...

    def online_brokers(self, tp: TopicPartition, *, include_shutting_down: bool = False) -> frozenset[BrokerId]:
        """Brokers on which a replica of this partition would be online: live, and its disk healthy (CX-2)."""
        ...

    def leader_epoch_for_stop(self, tp: TopicPartition) -> LeaderEpoch:
        """What a StopReplica carries (CX-7): -2 while the topic is queued for deletion, -1 without leadership."""
        ...

    def replica_state(self, broker: BrokerId, tp: TopicPartition) -> ReplicaState: ...
