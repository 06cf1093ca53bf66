"""The active controller's in-memory state of the cluster, changed only by `apply`.

Only the event loop writes it. Nothing here awaits, so the state is consistent between two awaits of a handler. Each
controller epoch starts with a new object, so no state leaks into the next one. Source: Kafka ControllerContext;
`replay` of KRaft's QuorumController (CX-12).
"""

from typing import assert_never

from cluster.state_machines import PartitionState, ReplicaState
from controller.changes import (
    AssignmentsRead,
    BrokersChange,
    Change,
    DeletionsChange,
    DeletionsEligible,
    DeletionsIneligible,
    DeletionsQueued,
    DeletionsStarted,
    DeletionsWithdrawn,
    LeadersElected,
    LeadershipsRead,
    LeadershipsWritten,
    PartitionsMoved,
    PartitionStatesDerived,
    ReassignmentsCompleted,
    ReassignmentsStarted,
    ReassignmentsWritten,
    ReplicasMoved,
    ReplicaStatesDerived,
    StatesChange,
    TopicIdRead,
    TopicsChange,
    TopicsCreated,
    TopicsListed,
    TopicsRemoved,
)
from controller.partition_image import PartitionImage


class ControllerContext(PartitionImage):
    """What is known of the cluster. Decisions see it through `controller.decisions.context_view`."""

    def apply(self, change: Change) -> None:
        """Take over one change. Raises TopicIdConflictError, and then nothing is changed."""
        if isinstance(change, BrokersChange):
            self._apply_to_brokers(change)
        elif isinstance(change, TopicsChange):
            self._apply_to_topics(change)
        elif isinstance(change, StatesChange):
            self._apply_to_states(change)
        elif isinstance(change, DeletionsChange):
            self._apply_to_deletions(change)

    def _apply_to_topics(self, change: TopicsChange) -> None:
        match change:
            case TopicsListed(topics):
                self.topics.update(topics)
            case TopicIdRead(topic, topic_id):
                self._add_topic_id(topic, topic_id)
            case AssignmentsRead(assignments):
                self._set_assignments(assignments)
                self.partitions_being_reassigned |= {tp for tp, a in assignments.items() if a.is_being_reassigned}
            case ReassignmentsWritten(assignments):
                self._set_assignments(assignments)
            case ReassignmentsStarted(partitions):
                self.partitions_being_reassigned.update(partitions)
            case ReassignmentsCompleted(assignments):
                self._set_assignments(assignments)
                self.partitions_being_reassigned.difference_update(assignments)
            case TopicsRemoved(topics):
                for topic in topics:
                    self._remove_topic(topic)
            case TopicsCreated():
                pass
            case _:
                assert_never(change)

    def _apply_to_states(self, change: StatesChange) -> None:
        match change:
            case LeadershipsRead(leaderships) | LeadershipsWritten(leaderships):
                self._set_leaderships(leaderships)
            case LeadersElected(leaderships):
                self._set_leaderships(leaderships)
                for tp in leaderships:
                    self._set_partition_state(tp, PartitionState.ONLINE)
            case PartitionsMoved(partitions, target):
                for tp in partitions:
                    self._set_partition_state(tp, target)
            case PartitionStatesDerived(states):
                for tp, state in states.items():
                    self._set_partition_state(tp, state)
            case ReplicasMoved(broker, partitions, target):
                self._set_replica_states(broker, partitions, target)
                if target is ReplicaState.NON_EXISTENT:
                    self._forget_replicas(broker, partitions)
            case ReplicaStatesDerived(broker, partitions, state):
                self._set_replica_states(broker, partitions, state)
            case _:
                assert_never(change)

    def _apply_to_deletions(self, change: DeletionsChange) -> None:
        match change:
            case DeletionsQueued(queued, postponed):
                self._postpone_deletions(postponed)
                self._queue_deletions(queued)
            case DeletionsWithdrawn(topics):
                for topic in self.deletions_postponed.intersection(topics):
                    self.deletions_postponed.discard(topic)
                    del self._deleting[topic]
            case DeletionsIneligible(topics):
                self.topics_ineligible_for_deletion |= self.topics_to_be_deleted & topics
            case DeletionsEligible(topics):
                self._queue_deletions(topics)
                self.topics_ineligible_for_deletion.difference_update(topics)
            case DeletionsStarted(topics):
                self.topics_with_deletion_started.update(topics)
            case _:
                assert_never(change)
