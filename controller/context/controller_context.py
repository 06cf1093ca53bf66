"""The active controller's in-memory state of the cluster, changed only by `apply`.

Only the event loop writes it. Nothing here awaits, so the state is consistent between two awaits of a handler. Each
controller epoch starts with a new object, so no state leaks into the next one. Source: Kafka ControllerContext;
`replay` of KRaft's QuorumController (CX-12).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, get_args

from cluster.model.broker import ControllerEpoch, ZkVersion
from controller import changes
from controller.context.brokers import BrokerControl
from controller.context.damage import DamageControl
from controller.context.deletions import DeletionControl
from controller.context.leaderships import LeadershipControl
from controller.context.replicas import ReplicaControl
from controller.context.topics import TopicControl

# A part that counts by what another holds comes before it, so that it still finds the state before the change.
_PARTS: Final[Mapping[str, Any]] = {
    "leaderships": LeadershipControl,
    "replicas": ReplicaControl,
    "damage": DamageControl,
    "brokers": BrokerControl,
    "topics": TopicControl,
    "deletions": DeletionControl,
}
_TAKERS: Final[Mapping[type, Sequence[str]]] = {
    kind: [part for part, control in _PARTS.items() if kind in get_args(control.apply.__annotations__["change"])]
    for kind in get_args(changes.Change)
}
"""Kind of change -> the parts whose `apply` takes it by its annotation, which mypy compares with its cases."""


class ControllerContext:
    """The cluster state. Decisions read it through `controller.decisions.context_view`.

    `now`: the event loop's clock in seconds, for how long things have lasted; nothing is decided by it here.
    """

    def __init__(
        self, epoch: ControllerEpoch, epoch_zk_version: ZkVersion, now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.epoch = epoch
        self.epoch_zk_version = epoch_zk_version
        self._now = now
        self.deletions = DeletionControl(now)
        self.topics = TopicControl(self.deletions, now)
        self.brokers = BrokerControl(self.topics, self.deletions, now)
        self.damage = DamageControl(self.brokers)
        self.replicas = ReplicaControl(self.topics)
        self.leaderships = LeadershipControl(self.topics, self.deletions, self.brokers)

    def apply(self, change: changes.Change) -> None:
        """Apply one change. Raises TopicIdConflictError; the context is then unchanged."""
        for part in _TAKERS[type(change)]:
            getattr(self, part).apply(change)

    def copy(self, topics: Iterable[str]) -> "ControllerContext":
        """Copy all brokers, all topic names, and the full state of `topics`; unknown topics are skipped.

        The cost is proportional to the topics copied.
        """
        copy = ControllerContext(self.epoch, self.epoch_zk_version, self._now)
        names = [topic for topic in dict.fromkeys(topics) if topic in self.topics.names]
        # A part comes after those that it reads.
        self.deletions.copy_to(copy.deletions, names)
        self.topics.copy_to(copy.topics, names)
        self.brokers.copy_to(copy.brokers)
        self.damage.copy_to(copy.damage)
        self.leaderships.copy_to(copy.leaderships, names)
        self.replicas.copy_to(copy.replicas, names, self.leaderships.known)
        return copy
