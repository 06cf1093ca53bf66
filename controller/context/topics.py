"""The topics, their ids, and the assignments of their partitions.

Invariant, whenever no method is running: indexes agree with the data they are derived from (INV-10). Ordered sets are
dicts with None values, for a deterministic iteration order. Source: Kafka ControllerContext.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import chain
from typing import assert_never

from cluster.model.broker import BrokerId, TopicId
from cluster.model.errors import ClusterError
from cluster.model.partition import EMPTY_ASSIGNMENT, ReplicaAssignment, TopicPartition
from controller import changes
from controller.context.deletions import DeletionControl
from controller.context.since import AddedSince


class TopicIdConflictError(ClusterError):
    """A topic id conflicts with a known one: the topic has another id, or the id belongs to another topic (CX-9)."""


class TopicControl:
    """Topics and assignments."""

    def __init__(self, deletions: DeletionControl, now: Callable[[], float]) -> None:
        self._deletions, self._now = deletions, now
        self.names: set[str] = set()
        self.ids: dict[str, TopicId] = {}
        self.names_by_id: dict[TopicId, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self._partitions: dict[str, list[TopicPartition]] = {}
        """Topic -> the keys of `assignments`, in that order: one object for each partition, which all parts share."""
        self.being_reassigned: set[TopicPartition] = set()
        self.reassigned_since: AddedSince[TopicPartition] = AddedSince()
        """Since when this controller knows of each of these reassignments."""
        self._hosted_by: dict[BrokerId, dict[TopicPartition, None]] = {}

    def apply(self, change: changes.TopicsChange) -> None:
        """Take a change into memory."""
        match change:
            case changes.TopicsListed(topics):
                self.names.update(topics)
            case changes.TopicIdRead(topic, topic_id):
                self._add_id(topic, topic_id)
            case changes.AssignmentsRead(assignments):
                self._set_assignments(assignments)
                self._start_reassignments([tp for tp, a in assignments.items() if a.is_being_reassigned])
            case changes.ReassignmentsWritten(assignments):
                self._set_assignments(assignments)
            case changes.ReassignmentsStarted(partitions):
                self._start_reassignments(partitions)
            case changes.ReassignmentsCompleted(assignments):
                self._set_assignments(assignments)
                self._end_reassignments(assignments)
            case changes.DeletionsQueued(topics):
                for topic in topics:
                    if topic not in self._deletions.queued:
                        self._end_reassignments(self.partitions_of(topic))
            case changes.TopicsRemoved(topics):
                for topic in topics:
                    self._remove(topic)
            case _:
                assert_never(change)

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """The replica assignment of a partition; empty for an unknown partition (CX-8)."""
        of_topic = self.assignments.get(tp.topic)
        return EMPTY_ASSIGNMENT if of_topic is None else of_topic.get(tp.partition, EMPTY_ASSIGNMENT)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic that have an assignment."""
        return list(self._partitions.get(topic, ()))

    def all_partitions(self) -> list[TopicPartition]:
        """The partitions of all topics that have an assignment."""
        return list(chain.from_iterable(self._partitions.values()))

    def partitions_on(self, broker: BrokerId) -> list[TopicPartition]:
        """The partitions whose full replica list contains the broker (CX-3)."""
        return list(self._hosted_by.get(broker, ()))

    def hosting_brokers(self) -> list[BrokerId]:
        """Every broker that is in some assignment, registered or not, sorted by id."""
        return sorted(broker for broker, hosted in self._hosted_by.items() if hosted)

    def _add_id(self, topic: str, topic_id: TopicId) -> None:
        known_id, known_topic = self.ids.get(topic, topic_id), self.names_by_id.get(topic_id, topic)
        if topic not in self.names or known_id != topic_id or known_topic != topic:
            raise TopicIdConflictError(f"topic {topic} id {topic_id}: known are id {known_id}, topic {known_topic}")
        self.ids[topic] = topic_id
        self.names_by_id[topic_id] = topic

    def _set_assignments(self, assignments: changes.Assignments) -> None:
        for tp, assignment in assignments.items():
            of_topic = self.assignments.setdefault(tp.topic, {})
            old = of_topic.get(tp.partition)
            of_topic[tp.partition] = assignment
            if old is None:
                self._partitions.setdefault(tp.topic, []).append(tp)
            elif old.replicas != assignment.replicas:
                for broker in old.replicas:
                    if broker not in assignment.replicas:
                        del self._hosted_by[broker][tp]
            for broker in assignment.replicas:
                self._hosted_by.setdefault(broker, {})[tp] = None

    def _start_reassignments(self, partitions: Collection[TopicPartition]) -> None:
        self.being_reassigned.update(partitions)
        self.reassigned_since.add(partitions, self._now())

    def _end_reassignments(self, partitions: Collection[TopicPartition]) -> None:
        self.being_reassigned.difference_update(partitions)
        self.reassigned_since.remove(partitions)

    def _remove(self, topic: str) -> None:
        """Remove a deleted topic: a new one of the same name starts without anything of it (CX-10, D-8)."""
        self._end_reassignments(self.partitions_of(topic))
        partitions = self._partitions.pop(topic, ())
        for tp, assignment in zip(partitions, self.assignments.pop(topic, {}).values(), strict=True):
            for broker in assignment.replicas:
                del self._hosted_by[broker][tp]
        topic_id = self.ids.pop(topic, None)
        if topic_id is not None:
            del self.names_by_id[topic_id]
        self.names.discard(topic)

    def copy_to(self, copy: "TopicControl", topics: Iterable[str]) -> None:
        """Copy all names, and the ids and assignments of these topics, into the context of a rehearsal."""
        copy.names = set(self.names)
        for topic in topics:
            if topic in self.ids:
                copy._add_id(topic, self.ids[topic])
            partitions = self.partitions_of(topic)
            copy._set_assignments({tp: self.assignment(tp) for tp in partitions})
            copy._start_reassignments(self.being_reassigned.intersection(partitions))
