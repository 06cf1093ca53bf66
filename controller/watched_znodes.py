"""Maps ZooKeeper watch notifications to controller events.

Source: the ZNodeChangeHandlers of Kafka's KafkaController.
"""

from collections.abc import Container
from typing import Final

from cluster.znodes.paths import (
    BROKERS_IDS,
    BROKERS_TOPICS,
    CONTROLLER,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    broker_of_name,
    partition_of_state_path,
)
from cluster.zookeeper.port import WatchEvent, WatchKind
from controller.events import (
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    Event,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    Reelect,
    RegisterAndReelect,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
)


def event_of_watch(watch: WatchEvent, own_registration: str, unresolved: Container[str] = ()) -> Event | None:
    """The event for a watch notification; None if the controller does not react to it.

    `unresolved`: request znodes that could not be read or deleted; any change of them counts as their creation.
    """
    path, kind = watch.path, watch.kind
    if path == CONTROLLER:
        return Reelect() if kind is WatchKind.DELETED else ControllerChange()
    if path == own_registration:
        # After a change, too: the watch has fired, and registering arms it again.
        return None if kind is WatchKind.CREATED else RegisterAndReelect()
    if path in _EVENT_OF_LIST:
        # If the parent itself was created or deleted, its children must be watched again.
        return _EVENT_OF_LIST[path]
    if kind is WatchKind.CREATED or path in unresolved:
        return _EVENT_OF_CREATION.get(path)
    # The deletion of a child is seen in its parent's list.
    return _event_of_change(path) if kind is WatchKind.CHANGED else None


def _event_of_change(path: str) -> Event | None:
    parent, _, name = path.rpartition("/")
    if parent == BROKERS_IDS:
        broker = broker_of_name(name)
        return None if broker is None else BrokerModifications(broker)
    if parent == BROKERS_TOPICS:
        return PartitionModifications(name)
    partition = partition_of_state_path(path)
    return None if partition is None else PartitionReassignmentIsrChange(partition)


_EVENT_OF_CREATION: Final[dict[str, Event]] = {
    REASSIGN_PARTITIONS: ZkPartitionReassignment(),
    PREFERRED_REPLICA_ELECTION: ReplicaLeaderElection(),
}
"""Only their creation: changes and manual deletion of valid requests are ignored, as in Kafka."""

_EVENT_OF_LIST: Final[dict[str, Event]] = {
    BROKERS_IDS: BrokerChange(),
    BROKERS_TOPICS: TopicChange(),
    DELETE_TOPICS: TopicDeletion(),
    ISR_CHANGE_NOTIFICATION: IsrChangeNotification(),
    LOG_DIR_EVENT_NOTIFICATION: LogDirEventNotification(),
}
