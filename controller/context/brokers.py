"""The brokers: registrations, liveness and offline log directories.

A broker is live if it is registered and not shutting down (CX-1). A replica is online if its broker is live and its log
directory is not offline (CX-2). Source: Kafka ControllerContext.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from cluster.model.broker import Broker, BrokerEpoch, BrokerId, RegisteredBroker
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import ReplicaState
from controller import changes
from controller.context.deletions import DeletionControl
from controller.context.topics import TopicControl


class BrokerControl:
    """The brokers known to the active controller. Source: KRaft ClusterControlManager."""

    def __init__(self, topics: TopicControl, deletions: DeletionControl, now: Callable[[], float]) -> None:
        self._topics, self._deletions, self._now = topics, deletions, now
        self.registered: dict[BrokerId, Broker] = {}
        self.epochs: dict[BrokerId, BrokerEpoch] = {}
        self.shutting_down: set[BrokerId] = set()
        self.shutting_down_since: dict[BrokerId, int] = {}
        """Broker that is shutting down -> when it asked, in ms of the wall clock."""
        self.offline_directories: dict[BrokerId, set[TopicPartition]] = {}
        """Broker -> partitions whose replica on it is in an offline log directory."""
        self.not_admitted: dict[BrokerId, str] = {}
        """Registered brokers that cannot join, each with why."""
        self.registered_controllers: frozenset[BrokerId] = frozenset()
        self.former_controllers: frozenset[BrokerId] = frozenset()
        self._began_at = now()
        self._left_at: dict[BrokerId, float] = {}
        # Both follow from the registrations and `shutting_down`.
        self.live_ids: frozenset[BrokerId] = frozenset()
        self.registered_ids: frozenset[BrokerId] = frozenset()

    @property
    def controllers(self) -> frozenset[BrokerId]:
        """Ids of controllers, which host no replicas; listed only where the brokers are Kafka's."""
        return self.registered_controllers | (self.former_controllers - self.registered_ids)

    def away_since(self, broker: BrokerId) -> float:
        """The time at which a broker that is away left, in seconds of the event loop's clock; when this controller
        began if it was away then: nothing in ZooKeeper says when a broker was there last.
        """
        return self._left_at.get(broker, self._began_at)

    def apply(self, change: changes.BrokersChange) -> None:
        """Take a change into memory."""
        match change:
            case changes.BrokersJoined(registered):
                self._join(registered)
            case changes.BrokersBounced(registered):
                self._remove(r.broker.id for r in registered)
            case changes.BrokersDied(brokers):
                self._remove(brokers)
                self._left_at.update(dict.fromkeys(brokers, self._now()))
            case changes.BrokerModified(registered):
                assert registered.broker.id in self.epochs, f"broker {registered.broker.id} is not registered"
                self.registered[registered.broker.id] = registered.broker
            case changes.BrokersNotAdmitted(reasons):
                self.not_admitted = dict(reasons)
            case changes.ControllersListed(registered, former):
                self.registered_controllers, self.former_controllers = registered, former
            case changes.BrokerShuttingDown(broker, since_ms=since_ms):
                self.shutting_down.add(broker)
                self.shutting_down_since[broker] = since_ms
                self._follow_liveness()
            case changes.OfflineReplicasReported(broker, partitions):
                self._set_offline_directory(broker, set(partitions))
            case changes.ReplicasMoved(broker, partitions, target):
                if target is ReplicaState.NON_EXISTENT:
                    self._forget_disk([broker], partitions)
            case changes.TopicsRemoved(topics):
                removed = [tp for t in topics if self.offline_directories for tp in self._topics.partitions_of(t)]
                self._forget_disk(self.offline_directories, removed)
            case _:
                assert_never(change)

    def _join(self, registered: Iterable[RegisteredBroker]) -> None:
        for broker, epoch in ((r.broker, r.epoch) for r in registered):
            self.registered[broker.id] = broker
            self.epochs[broker.id] = epoch
            self.offline_directories.pop(broker.id, None)
            self._left_at.pop(broker.id, None)
        self._follow_liveness()

    def _follow_liveness(self) -> None:
        self.registered_ids = frozenset(self.epochs)
        self.live_ids = self.registered_ids - self.shutting_down

    def _remove(self, brokers: Iterable[BrokerId]) -> None:
        for broker in brokers:
            self.registered.pop(broker, None)
            self.epochs.pop(broker, None)
            self.offline_directories.pop(broker, None)
            self.shutting_down.discard(broker)
            self.shutting_down_since.pop(broker, None)
        self._follow_liveness()

    def _set_offline_directory(self, broker: BrokerId, offline: set[TopicPartition]) -> None:
        if offline:
            self.offline_directories[broker] = offline
        else:
            self.offline_directories.pop(broker, None)

    def _forget_disk(self, brokers: Iterable[BrokerId], deleted: Iterable[TopicPartition]) -> None:
        """Remove deleted replicas from the offline log directories: new ones may be created in other directories."""
        for broker in self.offline_directories.keys() & brokers:
            self._set_offline_directory(broker, self.offline_directories[broker].difference(deleted))

    def online_for(self, tp: TopicPartition, *, include_shutting_down: bool = False) -> frozenset[BrokerId]:
        """Brokers on which a replica of `tp` is online, or would be: live, its log directory online (CX-2), and nothing
        of an earlier topic of the name left (D-99).
        """
        brokers = self.registered_ids if include_shutting_down else self.live_ids
        left = self._deletions.brokers_with_left_replicas
        if left:
            brokers -= left.get(tp.topic, frozenset())
        if not self.offline_directories:
            return brokers
        return brokers - {b for b, failed in self.offline_directories.items() if tp in failed}

    def copy_to(self, copy: "BrokerControl") -> None:
        """Copy everything into the context of a rehearsal."""
        copy.registered, copy.epochs = dict(self.registered), dict(self.epochs)
        copy.shutting_down, copy.shutting_down_since = set(self.shutting_down), dict(self.shutting_down_since)
        copy.offline_directories = {broker: set(failed) for broker, failed in self.offline_directories.items()}
        copy.not_admitted = dict(self.not_admitted)
        copy.registered_controllers, copy.former_controllers = self.registered_controllers, self.former_controllers
        copy._began_at, copy._left_at = self._began_at, dict(self._left_at)
        copy._follow_liveness()
