"""The states of replicas, and how many of each queued topic are in which. Source: Kafka ControllerContext."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import assert_never

from cluster.model.broker import BrokerId
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import ReplicaState
from controller import changes
from controller.context.topics import TopicControl


class ReplicaControl:
    """States of the replica state machine. Invariant: counts agree with the states (INV-10)."""

    def __init__(self, topics: TopicControl) -> None:
        self._topics = topics
        self.states: dict[BrokerId, dict[TopicPartition, ReplicaState]] = {}
        self._deleting: dict[str, Counter[ReplicaState]] = {}
        """Topic queued for deletion -> number of its replicas in each state."""

    def apply(self, change: changes.ReplicasChange) -> None:
        """Take a change into memory."""
        match change:
            case changes.ReplicasMoved(broker, partitions, target):
                self._set_states(broker, partitions, target)
                if target is ReplicaState.NON_EXISTENT:
                    # The assignment stays until ZooKeeper has one without them, or none.
                    self._forget(broker, partitions)
            case changes.AssignmentsRead() | changes.ReassignmentsWritten() | changes.ReassignmentsCompleted():
                for tp, assignment in change.assignments.items() if self._deleting else ():
                    self._count(tp, self._topics.assignment(tp), -1)
                    self._count(tp, assignment, +1)
            case changes.DeletionsQueued(topics):
                self._follow(topics)
            case changes.TopicsRemoved(topics):
                for topic in topics:
                    removed = self._topics.partitions_of(topic)
                    for broker in self.states:
                        self._forget(broker, removed)
                    self._deleting.pop(topic, None)
            case _:
                assert_never(change)

    def state(self, broker: BrokerId, tp: TopicPartition) -> ReplicaState:
        """The state of a replica in its state machine; NonExistentReplica if it is unknown."""
        on_broker = self.states.get(broker)
        return ReplicaState.NON_EXISTENT if on_broker is None else on_broker.get(tp, ReplicaState.NON_EXISTENT)

    def states_on(self, broker: BrokerId, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ReplicaState]:
        """The states of the replicas of these partitions on a broker, in a dict of the caller's own."""
        on_broker = self.states.get(broker, {})
        return dict(zip(partitions, map(on_broker.get, partitions, repeat(ReplicaState.NON_EXISTENT)), strict=True))

    def by_state(self, topic: str) -> Mapping[ReplicaState, int]:
        """Number of replicas in each state, for a topic queued for deletion; a state may be present with 0."""
        return self._deleting[topic]

    def _set_states(self, broker: BrokerId, partitions: Iterable[TopicPartition], state: ReplicaState) -> None:
        states, changed = self.states.setdefault(broker, {}), dict.fromkeys(partitions, state)
        if self._deleting:
            for tp in changed:
                counts = self._deleting.get(tp.topic)
                if counts is not None and broker in self._topics.assignment(tp).replicas:
                    counts[states.get(tp, ReplicaState.NON_EXISTENT)] -= 1
                    counts[state] += 1
        states.update(changed)

    def _forget(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        states = self.states.get(broker, {})
        for tp in partitions:
            states.pop(tp, None)

    def _follow(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if topic not in self._deleting:
                self._deleting[topic] = Counter()
                for tp in self._topics.partitions_of(topic):
                    self._count(tp, self._topics.assignment(tp), +1)

    def _count(self, tp: TopicPartition, assignment: ReplicaAssignment, sign: int) -> None:
        counts = self._deleting.get(tp.topic)
        if counts is not None:
            for broker in assignment.replicas:
                counts[self.state(broker, tp)] += sign

    def copy_to(
        self, copy: "ReplicaControl", topics: Iterable[str], leaderships: Mapping[TopicPartition, LeaderAndIsr]
    ) -> None:
        """Copy the replicas of these topics into the context of a rehearsal."""
        for tp in (tp for topic in topics for tp in self._topics.partitions_of(topic)):
            known = leaderships.get(tp)
            # An unassigned ISR member is a removed replica whose removal from the ISR was refused by ZooKeeper.
            for broker in {*self._topics.assignment(tp).replicas, *(known.isr if known is not None else ())}:
                state = self.state(broker, tp)
                if state is not ReplicaState.NON_EXISTENT:
                    copy.states.setdefault(broker, {})[tp] = state
        copy._follow(topic for topic in topics if topic in self._deleting)
