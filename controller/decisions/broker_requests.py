"""Collects changes in a batch and builds at most one request of each kind per broker from it.

A batch belongs to one step of one event and is sent once, so a partly sent batch cannot mix with the next one.
Partition states are built once and shared by all requests that carry them, so that the codec serialises them once.
Source: Kafka AbstractControllerBrokerRequestBatch.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from cluster.model.broker import (
    LEADER_DURING_DELETE,
    LEADER_EPOCH_DURING_DELETE,
    Broker,
    BrokerId,
    ControllerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.requests.control import (
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    LiveLeader,
    RequestCause,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from controller.decisions.context_view import ContextView
from controller.decisions.request_sizes import LARGEST_BYTES, within

Assignments = Mapping[TopicPartition, ReplicaAssignment]
NO_ASSIGNMENTS: Final[Assignments] = MappingProxyType({})


class _LeaderAndIsr(Struct, eq=False, gc=False):
    """What brokers are sent of a partition. `state`: as it was made last, for all of them."""

    tp: TopicPartition
    leadership: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool
    state: LeaderAndIsrPartitionState | None = None

    def says(self, leadership: LeaderAndIsr, assignment: ReplicaAssignment, *, is_new: bool) -> bool:
        # Comparing identity is enough, and much faster: all come from objects of the context.
        return self.leadership is leadership and self.assignment is assignment and self.is_new is is_new


class _Stop(NamedTuple):
    leader_epoch: LeaderEpoch
    delete: bool
    topic_id: TopicId | None


class ControlBatch:
    """Collects the requests of one step. Leadership is captured when it is added (RQ-6).

    `announced`: assignments sent to brokers before the topic znodes, and therefore the view, hold them. `withheld`:
    topics of which no metadata are sent for now.
    """

    def __init__(
        self, view: ContextView, announced: Assignments = NO_ASSIGNMENTS, withheld: Container[str] = ()
    ) -> None:
        self._view = view
        self._withheld = withheld
        self._announced = announced
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, _LeaderAndIsr]] = {}
        self._known: dict[BrokerId, list[_LeaderAndIsr]] = {}
        """The same of brokers that were only sent what is known; of 100,000 replicas a list has a fifth of the size."""
        self._made_with: RequestSettings | None = None
        self._entries: dict[TopicPartition, _LeaderAndIsr] = {}
        """The last of each partition, so that brokers that are sent the same have the same."""
        self._stops: dict[BrokerId, dict[TopicPartition, _Stop]] = {}
        self._metadata: dict[TopicPartition, LeaderAndIsr] = {}
        self._metadata_brokers: set[BrokerId] = set()
        self._metadata_for_all = False

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """The assignment to send to brokers."""
        announced = self._announced.get(tp) if self._announced else None
        return self._view.topics.assignment(tp) if announced is None else announced

    def add_leader_and_isr(
        self,
        brokers: Iterable[BrokerId],
        tp: TopicPartition,
        leadership: LeaderAndIsr,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        """Send the leadership to `brokers`, and to every registered broker through UpdateMetadata (RQ-4).

        A later entry for the partition replaces an earlier one, but `is_new` stays True within this batch. A broker
        that still has replicas of a deleted topic of that name is not sent it before it has deleted them (D-99).
        """
        entry = self._entry(tp, leadership, assignment, is_new=is_new)
        deletions = self._view.deletions
        for broker in brokers:
            if broker < 0 or (deletions.left_replicas and deletions.has_left_replicas(broker, tp.topic)):
                continue
            if broker in self._known:
                self._leader_and_isr[broker] = {known.tp: known for known in self._known.pop(broker)}
            states = self._leader_and_isr.setdefault(broker, {})
            earlier = states.get(tp)
            is_sticky = earlier is not None and earlier.is_new and not is_new
            states[tp] = self._entry(tp, leadership, assignment, is_new=True) if is_sticky else entry
        self._metadata_for_all = True
        current = self._view.leaderships.known.get(tp)
        if current is not None:
            self._metadata[tp] = current

    def add_known_leader_and_isr(self, replicas: Mapping[BrokerId, Iterable[TopicPartition]]) -> None:
        """Do `add_leader_and_isr`, with `is_new` False, for the replicas of partitions that have a leadership.

        `replicas`: broker -> partitions. At a failover these are all replicas of the cluster, so that what is known of
        a partition is looked up once for all of them.
        """
        known, assignment_of = self._view.leaderships.known, self._view.topics.assignment
        entries: dict[TopicPartition, _LeaderAndIsr] = {}
        for broker, partitions in replicas.items():
            is_first = broker not in self._leader_and_isr and broker not in self._known
            if broker < 0 or not is_first or broker in self._view.deletions.left_replicas:
                for tp in partitions:
                    if tp in known:
                        self.add_leader_and_isr((broker,), tp, known[tp], assignment_of(tp), is_new=False)
                continue
            states: list[_LeaderAndIsr] = []
            for tp in partitions:
                entry = entries.get(tp)
                if entry is None:
                    leadership = known.get(tp)
                    if leadership is None:
                        continue
                    entry = entries[tp] = _LeaderAndIsr(tp, leadership, assignment_of(tp), False)
                    self._metadata[tp] = leadership
                states.append(entry)
            if states:
                self._known[broker] = states
                self._metadata_for_all = True

    def _entry(
        self, tp: TopicPartition, leadership: LeaderAndIsr, assignment: ReplicaAssignment, *, is_new: bool
    ) -> _LeaderAndIsr:
        """The entry that says this, the same for all brokers that are sent it one after the other."""
        entry = self._entries.get(tp)
        if entry is None or not entry.says(leadership, assignment, is_new=is_new):
            entry = self._entries[tp] = _LeaderAndIsr(tp, leadership, assignment, is_new)
        return entry

    def add_stop_replica(self, broker: BrokerId, tp: TopicPartition, *, delete: bool) -> None:
        """Send StopReplica to `broker`; once `delete` was True it stays so within this batch (RQ-5)."""
        if broker < 0:
            return
        stops = self._stops.setdefault(broker, {})
        earlier = stops.get(tp)
        sticky = delete or (earlier is not None and earlier.delete)
        stops[tp] = _Stop(self._view.leaderships.leader_epoch_for_stop(tp), sticky, self._view.topics.ids.get(tp.topic))

    def add_deletion_of_left_replicas(self, broker: BrokerId) -> None:
        """Send StopReplica with deletion for all that `broker` still has of deleted topics, under their ids (D-99)."""
        stops = self._stops.setdefault(broker, {})
        for topic, left in self._view.deletions.left_replicas.get(broker, {}).items():
            for partition in left.partitions:
                stops[TopicPartition(topic, partition)] = _Stop(LEADER_EPOCH_DURING_DELETE, True, left.topic_id)

    def add_update_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition]) -> None:
        """Send UpdateMetadata with the partitions and all live brokers to `brokers`.

        A partition without leadership is omitted, but its brokers get a request all the same (RQ-7).
        """
        self._metadata_brokers.update(b for b in brokers if b >= 0)
        leaderships = self._view.leaderships.known
        for tp in partitions:
            leadership = leaderships.get(tp)
            if leadership is not None:
                self._metadata[tp] = leadership

    def add_update_metadata_for_all(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Do `add_update_metadata` for all registered brokers."""
        self._metadata_for_all = True
        self.add_update_metadata((), partitions)

    def requests(
        self, controller: ControllerId, settings: "RequestSettings", causes: tuple[RequestCause, ...] = ()
    ) -> list[tuple[BrokerId, ControlRequest]]:
        """Make all LeaderAndIsr, then all UpdateMetadata, then all StopReplica requests, brokers sorted by id (RQ-10).

        `causes`: the events they follow from, for the state-change logs of the brokers.
        Brokers that are not registered now are omitted; the others get their current broker epoch (RQ-12).
        """
        return [
            *self._leader_and_isr_requests(controller, settings, causes),
            *self._update_metadata_requests(controller, settings, causes),
            *self._stop_replica_requests(controller, settings, causes),
        ]

    def _leader_and_isr_requests(
        self, controller: ControllerId, settings: "RequestSettings", causes: tuple[RequestCause, ...]
    ) -> list[tuple[BrokerId, ControlRequest]]:
        by_broker: dict[BrokerId, Collection[_LeaderAndIsr]] = {b: e.values() for b, e in self._leader_and_isr.items()}
        by_broker.update(self._known)
        if self._made_with not in (None, settings):
            # By an earlier call.
            for entry in chain.from_iterable(by_broker.values()):
                entry.state = None
        self._made_with = settings
        requests: list[tuple[BrokerId, ControlRequest]] = []
        for broker in sorted(by_broker.keys() & self._view.brokers.epochs.keys()):
            entries = by_broker[broker]
            states: dict[str, list[LeaderAndIsrPartitionState]] = {}
            last, of_topic = None, list[LeaderAndIsrPartitionState]()
            for entry in entries:
                state = entry.state
                if state is None:
                    state = entry.state = _leader_and_isr_state(entry, settings.leader_recovery_state)
                topic = entry.tp[0]
                # Partitions of a topic mostly follow one another.
                if topic is not last:
                    last, of_topic = topic, states.setdefault(topic, [])
                of_topic.append(state)
            leaders = {entry.leadership.leader for entry in entries}
            live_leaders = _live_leaders(self._view.brokers.registered, leaders, settings.inter_broker_listener)
            topics = (
                LeaderAndIsrTopicState(topic, self._topic_id(topic, settings), tuple(named))
                for topic, named in states.items()
            )
            epoch, broker_epoch = self._view.epoch, self._view.brokers.epochs[broker]
            requests.extend(
                (broker, LeaderAndIsrRequest(controller, epoch, broker_epoch, part, live_leaders, causes))
                for part in within(topics, settings.bytes_max)
            )
        return requests

    def _update_metadata_requests(
        self, controller: ControllerId, settings: "RequestSettings", causes: tuple[RequestCause, ...]
    ) -> list[tuple[BrokerId, ControlRequest]]:
        registered = self._view.brokers.epochs.keys()
        brokers = sorted(registered if self._metadata_for_all else self._metadata_brokers & registered)
        if not brokers:
            return []
        topics = (
            UpdateMetadataTopicState(topic, self._topic_id(topic, settings), tuple(of_topic))
            for topic, of_topic in self._metadata_states().items()
        )
        parts = list(within(topics, settings.bytes_max))
        live_brokers = tuple(self._view.brokers.registered[b] for b in sorted(self._view.brokers.registered))
        epochs = self._view.brokers.epochs
        return [
            (b, UpdateMetadataRequest(controller, self._view.epoch, epochs[b], part, live_brokers, causes))
            for b in brokers
            for part in parts
        ]

    def _stop_replica_requests(
        self, controller: ControllerId, settings: "RequestSettings", causes: tuple[RequestCause, ...]
    ) -> list[tuple[BrokerId, ControlRequest]]:
        requests: list[tuple[BrokerId, ControlRequest]] = []
        for broker in sorted(self._stops.keys() & self._view.brokers.epochs.keys()):
            states = tuple(
                StopReplicaPartitionState(
                    tp.topic,
                    tp.partition,
                    stop.leader_epoch,
                    stop.delete,
                    stop.topic_id if settings.topic_ids else None,
                )
                for tp, stop in self._stops[broker].items()
            )
            # Before IBP 2.6 the delete flag belongs to the whole request; deleting ones go first (RQ-13).
            parts = (
                [states]
                if settings.stop_replica_flag_per_partition
                else [tuple(s for s in states if s.delete_partition is delete) for delete in (True, False)]
            )
            epoch = self._view.brokers.epochs[broker]
            requests.extend(
                (broker, StopReplicaRequest(controller, self._view.epoch, epoch, named, causes))
                for part in parts
                for named in within(part, settings.bytes_max)
                if named
            )
        return requests

    def _metadata_states(self) -> dict[str, list[UpdateMetadataPartitionState]]:
        """The states for UpdateMetadata by topic."""
        online_for, assignment_of = self._view.brokers.online_for, self.assignment
        queued, withheld = self._view.deletions.queued, self._withheld
        states: dict[str, list[UpdateMetadataPartitionState]] = {}
        for tp, leadership in self._metadata.items():
            topic, partition = tp
            is_queued = topic in queued
            # Of a deletion brokers hear at once: it may be over before the topic is no longer withheld.
            if topic in withheld and not is_queued:
                continue
            replicas, online = assignment_of(tp).replicas, online_for(tp)
            offline = () if online.issuperset(replicas) else tuple([b for b in replicas if b not in online])
            leader, leader_epoch, epoch = leadership.leader, leadership.leader_epoch, leadership.partition_epoch
            if is_queued:
                leader, leader_epoch, epoch = LEADER_DURING_DELETE, LeaderEpoch(0), PartitionEpoch(0)
            controller_epoch, isr = leadership.controller_epoch, leadership.isr
            state = UpdateMetadataPartitionState(
                partition, controller_epoch, leader, leader_epoch, isr, epoch, replicas, offline
            )
            states.setdefault(topic, []).append(state)
        return states

    def _topic_id(self, topic: str, settings: "RequestSettings") -> TopicId | None:
        return self._view.topics.ids.get(topic) if settings.topic_ids else None


class RequestSettings(Struct, frozen=True):
    """How protocol version and listeners shape requests; the defaults are those of the latest version. `bytes_max`:
    estimated size above which LeaderAndIsr and UpdateMetadata are divided by topic, StopReplica by replica.
    """

    inter_broker_listener: str = "PLAINTEXT"
    leader_recovery_state: bool = True
    topic_ids: bool = True
    stop_replica_flag_per_partition: bool = True
    bytes_max: int = LARGEST_BYTES


def _leader_and_isr_state(entry: _LeaderAndIsr, with_recovery_state: bool) -> LeaderAndIsrPartitionState:
    leadership, assignment = entry.leadership, entry.assignment
    return LeaderAndIsrPartitionState(
        entry.tp.partition,
        leadership.controller_epoch,
        leadership.leader,
        leadership.leader_epoch,
        leadership.isr,
        leadership.partition_epoch,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
        entry.is_new,
        leadership.leader_recovery_state if with_recovery_state else 0,
    )


def _live_leaders(brokers: Mapping[BrokerId, Broker], leaders: set[BrokerId], listener: str) -> tuple[LiveLeader, ...]:
    found: list[LiveLeader] = []
    for broker in sorted(leaders & brokers.keys()):
        endpoint = brokers[broker].endpoint(listener)
        if endpoint is not None:
            found.append(LiveLeader(broker, endpoint.host, endpoint.port))
    return tuple(found)
