"""Maps ZooKeeper watch notifications to controller events.

Source: Kafka KafkaController (its ZNodeChangeHandlers).
"""

from collections.abc import Container
from typing import Final

from cluster.znodes import paths
from cluster.zookeeper.port import WatchEvent, WatchKind
from controller import events


def event_of_watch(
    watch: WatchEvent, own_registration: str, unresolved: Container[str] = (), malformed: Container[str] = ()
) -> events.Event | None:
    """The event for a watch notification; None if the controller does not react to it.

    `unresolved`: request znodes that could not be deleted; any change of them counts as their creation.
    `malformed`: znodes that were malformed when last read; any change of a partition's state among them is an event.
    """
    path, kind = watch.path, watch.kind
    if path in {paths.CONTROLLER, paths.ADOPTION} or paths.controller_of_registration_path(path) is not None:
        return _event_of_election(path, kind, own_registration)
    if path in _EVENT_OF_ANY_CHANGE:
        return _EVENT_OF_ANY_CHANGE[path]
    if kind is WatchKind.CREATED or path in unresolved:
        return _EVENT_OF_CREATION.get(path)
    if path in malformed and (partition := paths.partition_of_state_path(path)) is not None:
        return events.PartitionStateChange(partition)
    # The deletion of a child is seen in its parent's list.
    return _event_of_change(path) if kind is WatchKind.CHANGED else None


def _event_of_election(path: str, kind: WatchKind, own_registration: str) -> events.Event | None:
    if path == own_registration:
        # After a change, too: the watch has fired, and registering arms it again.
        return None if kind is WatchKind.CREATED else events.RegisterAndReelect()
    is_vacant = path == paths.CONTROLLER and kind is WatchKind.DELETED
    return events.Reelect() if is_vacant else events.ControllerChange()


def _event_of_change(path: str) -> events.Event | None:
    parent, _, name = path.rpartition("/")
    if parent == paths.BROKERS_IDS:
        broker = paths.broker_of_name(name)
        return None if broker is None else events.BrokerModifications(broker)
    if parent == paths.BROKERS_TOPICS:
        return events.PartitionModifications(name)
    partition = paths.partition_of_state_path(path)
    return None if partition is None else events.PartitionReassignmentIsrChange(partition)


_EVENT_OF_CREATION: Final[dict[str, events.Event]] = {
    paths.PREFERRED_REPLICA_ELECTION: events.ReplicaLeaderElection(),
}
"""Only its creation: changes and manual deletion of a valid request are ignored, as in Kafka."""

_EVENT_OF_ANY_CHANGE: Final[dict[str, events.Event]] = {
    paths.CONTROLLER_EPOCH: events.ControllerEpochChange(),
    # What was added to a pending request counts too, and the watch must be armed again (D-95).
    paths.REASSIGN_PARTITIONS: events.ZkPartitionReassignment(),
    # Lists: if the parent itself was created or deleted, its children must be watched again.
    paths.BROKERS_IDS: events.BrokerChange(),
    paths.CONTROLLERS_IDS: events.BrokerChange(),
    paths.BROKERS_TOPICS: events.TopicChange(),
    paths.DELETE_TOPICS: events.TopicDeletion(),
    paths.ISR_CHANGE_NOTIFICATION: events.IsrChangeNotification(),
    paths.LOG_DIR_EVENT_NOTIFICATION: events.LogDirEventNotification(),
}
