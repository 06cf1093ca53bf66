"""The active controller's in-memory state of the cluster, changed only by `apply`.

Only the event loop writes it. Nothing here awaits, so the state is consistent between two awaits of a handler. Each
controller epoch starts with a new object, so no state leaks into the next one. Source: Kafka ControllerContext;
`replay` of KRaft's QuorumController (CX-12).
"""

from typing import assert_never

from cluster.model.state_machines import PartitionState, ReplicaState
from controller import changes
from controller.partition_image import PartitionImage


class ControllerContext(PartitionImage):
    """The cluster state. Decisions read it through `controller.decisions.context_view`."""

    def apply(self, change: changes.Change) -> None:
        """Apply one change. Raises TopicIdConflictError; the context is then unchanged."""
        if isinstance(change, changes.BrokersChange):
            self._apply_to_brokers(change)
        elif isinstance(change, changes.DamageChange):
            self._apply_to_damage(change)
        elif isinstance(change, changes.TopicsChange):
            self._apply_to_topics(change)
        elif isinstance(change, changes.StatesChange):
            self._apply_to_states(change)
        elif isinstance(change, changes.DeletionsChange):
            self._apply_to_deletions(change)
        elif isinstance(change, changes.LeftReplicasChange):
            self._apply_to_left_replicas(change)

    def _apply_to_topics(self, change: changes.TopicsChange) -> None:
        match change:
            case changes.TopicsListed(topics):
                self.topics.update(topics)
            case changes.TopicIdRead(topic, topic_id):
                self._add_topic_id(topic, topic_id)
            case changes.AssignmentsRead(assignments):
                self._set_assignments(assignments)
                self.partitions_being_reassigned |= {tp for tp, a in assignments.items() if a.is_being_reassigned}
            case changes.ReassignmentsWritten(assignments):
                self._set_assignments(assignments)
            case changes.ReassignmentsStarted(partitions):
                self.partitions_being_reassigned.update(partitions)
            case changes.ReassignmentsCompleted(assignments):
                self._set_assignments(assignments)
                self.partitions_being_reassigned.difference_update(assignments)
            case changes.TopicsRemoved(topics):
                for topic in topics:
                    self._remove_topic(topic)
            case changes.TopicsCreated():
                pass
            case _:
                assert_never(change)

    def _apply_to_states(self, change: changes.StatesChange) -> None:
        match change:
            case changes.LeadershipsRead(leaderships) | changes.LeadershipsWritten(leaderships):
                self._set_leaderships(leaderships)
            case changes.LeadersElected(leaderships):
                self._set_leaderships(leaderships)
                for tp in leaderships:
                    self._set_partition_state(tp, PartitionState.ONLINE)
            case changes.PartitionsMoved(partitions, target):
                for tp in partitions:
                    self._set_partition_state(tp, target)
            case changes.PartitionStatesDerived(states):
                for tp, state in states.items():
                    self._set_partition_state(tp, state)
            case changes.ReplicasMoved(broker, partitions, target):
                self._set_replica_states(broker, partitions, target)
                if target is ReplicaState.NON_EXISTENT:
                    self._forget_replicas(broker, partitions)
            case changes.ReplicaStatesDerived(broker, partitions, state):
                self._set_replica_states(broker, partitions, state)
            case _:
                assert_never(change)

    def _apply_to_deletions(self, change: changes.DeletionsChange) -> None:
        match change:
            case changes.DeletionsQueued(queued):
                self._queue_deletions(queued)
            case changes.DeletionsIneligible(topics):
                self.topics_ineligible_for_deletion |= self.topics_to_be_deleted & topics
            case changes.DeletionsEligible(topics):
                self.topics_ineligible_for_deletion.difference_update(topics)
            case changes.DeletionsStarted(topics):
                self._start_deletions(topics)
            case _:
                assert_never(change)
