"""What a notification of ZooKeeper means to the controller: which event, if any, follows from a znode that changed.

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
    """Which event the notification of a znode means; None for those that mean nothing here.

    `unresolved`: requests that could not be read or removed, so that any change of theirs counts as their creation.
    """
    path, kind = watch.path, watch.kind
    if path == CONTROLLER:
        return Reelect() if kind is WatchKind.DELETED else ControllerChange()
    if path == own_registration:
        # After a change, too: that spends the watch, and registering leaves the next one.
        return None if kind is WatchKind.CREATED else RegisterAndReelect()
    if path in _EVENT_OF_LIST:
        # Where the parent itself went or came, its list must be watched anew.
        return _EVENT_OF_LIST[path]
    if kind is WatchKind.CREATED or path in unresolved:
        return _EVENT_OF_CREATION.get(path)
    # Whether a child was deleted shows in its parent's list.
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
"""Only their creation: changes and a deletion by hand of requests that are in order go unnoticed, as in Kafka."""

_EVENT_OF_LIST: Final[dict[str, Event]] = {
    BROKERS_IDS: BrokerChange(),
    BROKERS_TOPICS: TopicChange(),
    DELETE_TOPICS: TopicDeletion(),
    ISR_CHANGE_NOTIFICATION: IsrChangeNotification(),
    LOG_DIR_EVENT_NOTIFICATION: LogDirEventNotification(),
}
