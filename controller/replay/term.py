"""The state that the log of one controller shows, in one controller epoch: a context, made by the changes it records.

It is the context of the controller itself, so that decisions see what they saw. What a log lacks is taken from the
decisions that it has, and said to be unknown.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Final

from cluster.model.broker import (
    NO_LEADER,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    RegisteredBroker,
    TopicId,
    ZkVersion,
)
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.requests.agents import UNCLEAN_SHUTDOWN, ReportedDamage
from controller import changes
from controller.context.controller_context import ControllerContext
from controller.decisions.brokers.known_damage import AwaitedReport
from controller.decisions.partitions.partition_states import initial_partition_state
from state_log.record import GOVERNS_KAFKA, DecisionInputs, LoggedStateChange

_UNKNOWN_EPOCH: Final = BrokerEpoch(0)


class ReplayedTerm:
    """What is known of the cluster, as the controller of this epoch knew it."""

    def __init__(self, active: LoggedStateChange) -> None:
        """Begin with the record that the controller became active."""
        self.epoch = ControllerEpoch(0 if active.controller_epoch is None else active.controller_epoch)
        self.context = ControllerContext(self.epoch, ZkVersion(0))
        self.begun_by = active.cause
        """The event in which the controller became active."""
        inputs = active.inputs or DecisionInputs()
        self.records_inputs = inputs.live is not None
        """Whether the log has the inputs that earlier versions of klamm did not record."""
        self.governs_kafka = None if inputs.governs is None else inputs.governs == GOVERNS_KAFKA
        self.assumed: set[BrokerId] = set()
        """Brokers that are taken for live, because decisions took them for that."""
        self.has_states = False
        """Whether the states of the loaded partitions are derived."""
        self._dead: set[BrokerId] = set()
        self._bounced: list[RegisteredBroker] = []
        self._unwritten_moves: set[TopicPartition] = set()
        for broker in inputs.live or ():
            self.join(broker)

    def copy(self, topics: Iterable[str]) -> "ReplayedTerm":
        """Copy what is known of the brokers and of these topics."""
        copied = copy(self)
        copied.context = self.context.copy(topics)
        copied.assumed, copied._dead = set(self.assumed), set(self._dead)
        copied._bounced, copied._unwritten_moves = list(self._bounced), set(self._unwritten_moves)
        return copied

    # Brokers

    def join(self, broker: BrokerId, epoch: BrokerEpoch | None = None) -> None:
        self._dead.discard(broker)
        registered = RegisteredBroker(Broker(broker, ()), _UNKNOWN_EPOCH if epoch is None else epoch)
        self.context.apply(changes.BrokersJoined((registered,)))

    def leave(self, broker: BrokerId) -> None:
        self._dead.add(broker)
        self.context.apply(changes.BrokersDied((broker,)))

    def bounce(self, broker: BrokerId, epoch: BrokerEpoch | None) -> None:
        """The broker is registered again; it joins once its earlier incarnation has left."""
        registered = RegisteredBroker(Broker(broker, ()), _UNKNOWN_EPOCH if epoch is None else epoch)
        self._dead.add(broker)
        self._bounced.append(registered)
        self.context.apply(changes.BrokersBounced((registered,)))

    def join_bounced(self) -> None:
        for registered in self._bounced:
            self.join(registered.broker.id, registered.epoch)
        self._bounced.clear()

    def has_bounced(self, broker: int | None) -> bool:
        return any(registered.broker.id == broker for registered in self._bounced)

    def assume_live(self, brokers: tuple[BrokerId, ...]) -> None:
        """Take brokers for live of which an earlier log does not say whether they were there at its beginning."""
        if self.records_inputs:
            return
        for broker in brokers:
            if broker not in self._dead and broker not in self.context.brokers.registered_ids:
                self.assumed.add(broker)
                self.join(broker)

    @contextmanager
    def with_inputs(self, tp: TopicPartition, inputs: DecisionInputs | None) -> Iterator[None]:
        """Know what a decision rested on, for as long as it is replayed."""
        given = inputs or DecisionInputs()
        apply, brokers = self.context.apply, self.context.brokers
        for broker in given.offline:
            apply(changes.OfflineReplicasReported(broker, frozenset([tp])))
        for broker in given.held:
            epoch = brokers.epochs.get(broker, _UNKNOWN_EPOCH)
            apply(changes.DamagedReplicasReported(broker, epoch, {tp: _damage(tp)}))
        if given.awaited:
            awaited = {broker: AwaitedReport(_UNKNOWN_EPOCH, 0) for broker in given.awaited}
            apply(changes.BrokersNotAdmitted({}, awaited))
        try:
            yield
        finally:
            for broker in given.offline:
                apply(changes.OfflineReplicasReported(broker, frozenset()))
            for broker in given.held:
                apply(changes.DamagedReplicasReleased(broker, (tp,)))
            if given.awaited:
                apply(changes.BrokersNotAdmitted({}))

    # Topics and partitions

    def list_topic(self, topic: str, topic_id: TopicId | None) -> None:
        self.context.apply(changes.TopicsListed((topic,)))
        if topic_id is None:
            return
        topics = self.context.topics
        other = topics.names_by_id.get(topic_id, topic)
        if topics.ids.get(topic, topic_id) != topic_id or other != topic:
            # A topic of the name, or of the id, was deleted while no record of it was read.
            self.context.apply(changes.TopicsRemoved(tuple(dict.fromkeys((topic, other))), deleted=False))
            self.context.apply(changes.TopicsListed((topic,)))
        self.context.apply(changes.TopicIdRead(topic, topic_id))

    def assign(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.context.apply(changes.AssignmentsRead({tp: without_repetition(assignment)}))

    def load(self, tp: TopicPartition, record: LoggedStateChange) -> None:
        """Take over what was loaded of a partition: `record` is its part of a `loaded` record."""
        self.list_topic(tp.topic, record.topic_id)
        self.assign(tp, assignment_of(record))
        if not self.records_inputs:
            self._unwritten_moves.add(tp)
        if record.leader_epoch is not None:
            self.context.apply(changes.LeadershipsRead({tp: leadership_of(record, self.epoch)}))

    def derive_states(self) -> None:
        """Derive the states of what was loaded, as the controller does after it took dead replicas out of ISRs."""
        self.has_states = True
        assignments = self.context.topics.assignments.items()
        assigned = [TopicPartition(topic, partition) for topic, of_topic in assignments for partition in of_topic]
        states = {
            tp: initial_partition_state(self.context, tp)
            for tp in assigned
            if self.records_inputs or self._is_leader_known(tp)
        }
        self.context.apply(changes.PartitionsMoved(states, recorded=False))

    def _is_leader_known(self, tp: TopicPartition) -> bool:
        known = self.context.leaderships.known.get(tp)
        named = {NO_LEADER, *self._dead, *self.context.brokers.registered_ids}
        return known is None or known.leader in named

    def may_be_moving(self, tp: TopicPartition) -> bool:
        """Whether an earlier log does not say if the partition was being reassigned when the controller began."""
        return tp in self._unwritten_moves

    def know_move(self, tp: TopicPartition) -> None:
        self._unwritten_moves.discard(tp)

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        """The state of a partition; None if it is not known."""
        return self.context.leaderships.partition_states.get(tp)

    def replica_state(self, broker: BrokerId, tp: TopicPartition) -> ReplicaState | None:
        """The state of a replica; None if it is not known, as not all transitions are recorded."""
        return self.context.replicas.states.get(broker, {}).get(tp)

    def know_replica(self, broker: BrokerId, tp: TopicPartition, state: ReplicaState) -> None:
        """Take over the state of a replica that a record names and none before it."""
        self.context.apply(changes.ReplicasMoved(broker, {tp: state}, state))


def _damage(tp: TopicPartition) -> ReportedDamage:
    return ReportedDamage(tp.topic, None, tp.partition, *(0, 0, 0), found_by=UNCLEAN_SHUTDOWN)  # type: ignore[arg-type]


def assignment_of(record: LoggedStateChange) -> ReplicaAssignment:
    """The assignment that a record has."""
    lists = (record.replicas, record.adding_replicas, record.removing_replicas)
    return ReplicaAssignment(*(brokers or () for brokers in lists))


def without_repetition(assignment: ReplicaAssignment) -> ReplicaAssignment:
    """The assignment with each replica once, as the context expects it."""
    lists = (assignment.replicas, assignment.adding, assignment.removing)
    return ReplicaAssignment(*(tuple(dict.fromkeys(brokers)) for brokers in lists))


def has_leadership(record: LoggedStateChange) -> bool:
    return None not in {record.leader, record.leader_epoch, record.partition_epoch}


def leadership_of(record: LoggedStateChange, epoch: ControllerEpoch) -> LeaderAndIsr:
    """The leadership that a record has; it must have one."""
    assert record.leader is not None
    assert record.leader_epoch is not None
    assert record.partition_epoch is not None
    return LeaderAndIsr(record.leader, record.leader_epoch, record.isr or (), epoch, record.partition_epoch)
