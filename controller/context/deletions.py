"""The topics queued for deletion, and what brokers that are away still have of deleted ones."""

from collections.abc import Callable, Collection, Mapping
from typing import assert_never

from cluster.model.broker import BrokerId
from cluster.znodes.left_replicas import LeftReplicas
from controller import changes
from controller.context.since import AddedSince


class DeletionControl:
    """Topic deletions. Source: Kafka TopicDeletionManager, ControllerContext."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.queued: set[str] = set()
        self.queued_since: AddedSince[str] = AddedSince()
        """Since when this controller knows of the deletion of each queued topic."""
        self.started: set[str] = set()
        self.ineligible: set[str] = set()
        """Queued topics whose deletion is blocked at present."""
        self.brokers_given_up: set[BrokerId] = set()
        """Brokers that have been away for so long that topic deletions do not wait for them (D-98)."""
        self.left_replicas: dict[BrokerId, dict[str, LeftReplicas]] = {}
        """Broker -> deleted topic -> what it still has of it, until it has answered that it has deleted that."""
        self.brokers_with_left_replicas: dict[str, frozenset[BrokerId]] = {}
        """The same by topic."""

    def apply(self, change: changes.DeletionsChange) -> None:
        """Take a change into memory."""
        match change:
            case changes.DeletionsQueued(topics):
                self._queue(topics)
            case changes.DeletionsIneligible(ineligible):
                self.ineligible |= self.queued & ineligible
            case changes.DeletionsEligible(topics):
                self.ineligible.difference_update(topics)
            case changes.DeletionsStarted(topics):
                self.started.update(topics)
            case changes.TopicsRemoved(topics):
                self.queued.difference_update(topics)
                self.queued_since.remove(topics)
                self.started.difference_update(topics)
                self.ineligible.difference_update(topics)
            case changes.BrokersGivenUp(brokers):
                self.brokers_given_up.update(brokers)
            case changes.BrokersJoined(registered):
                self.brokers_given_up.difference_update(r.broker.id for r in registered)
            case changes.LeftReplicasRecorded(left):
                for broker, found in left.items():
                    self._leave_replicas(broker, found)
            case changes.LeftReplicasDeleted(broker, topics):
                for topic in topics:
                    self._forget_left_replicas(broker, topic)
            case _:
                assert_never(change)

    def has_left_replicas(self, broker: BrokerId, topic: str) -> bool:
        """Whether the broker still has replicas of a deleted topic of this name: it gets no others before it has
        deleted those (D-99).
        """
        return broker in self.brokers_with_left_replicas.get(topic, ())

    def _queue(self, topics: Collection[str]) -> None:
        self.queued.update(topics)
        self.queued_since.add(topics, self._now())

    def _leave_replicas(self, broker: BrokerId, left: Mapping[str, LeftReplicas]) -> None:
        self.left_replicas.setdefault(broker, {}).update(left)
        for topic in left:
            others = self.brokers_with_left_replicas.get(topic, frozenset())
            self.brokers_with_left_replicas[topic] = others | {broker}

    def _forget_left_replicas(self, broker: BrokerId, topic: str) -> None:
        of_broker = self.left_replicas.get(broker, {})
        of_broker.pop(topic, None)
        if not of_broker:
            self.left_replicas.pop(broker, None)
        others = self.brokers_with_left_replicas.pop(topic, frozenset()) - {broker}
        if others:
            self.brokers_with_left_replicas[topic] = others

    def copy_to(self, copy: "DeletionControl", topics: Collection[str]) -> None:
        """Copy the deletions of these topics into the context of a rehearsal."""
        copy._queue([topic for topic in topics if topic in self.queued])
        copy.started = self.started.intersection(topics)
        copy.ineligible = self.ineligible.intersection(topics)
        copy.brokers_given_up = set(self.brokers_given_up)
        copy.left_replicas = {broker: dict(left) for broker, left in self.left_replicas.items()}
        copy.brokers_with_left_replicas = dict(self.brokers_with_left_replicas)
