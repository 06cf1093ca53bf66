"""The states of partitions and replicas and their valid transitions, one table each.

The controller makes the transitions, the invariants check recorded ones against the same tables, and the documentation
is generated from them. Source: Kafka PartitionStateMachine, ReplicaStateMachine.
"""

from enum import StrEnum
from typing import Final


class PartitionState(StrEnum):
    """The state of a partition in the controller."""

    NEW = "NewPartition"
    """Has replicas, has never had a leader."""
    ONLINE = "OnlinePartition"
    """A leader has been elected."""
    OFFLINE = "OfflinePartition"
    """Had a leader, which is offline."""
    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted; also the state of a partition without a recorded one."""


class ReplicaState(StrEnum):
    """The state of one replica in the controller."""

    NEW = "NewReplica"
    """Being created; can only become a follower."""
    ONLINE = "OnlineReplica"
    """Serving; may lead or follow."""
    OFFLINE = "OfflineReplica"
    """Its broker or log directory is offline, or it is being removed."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    """StopReplica with deletion was sent to its broker."""
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """Its broker confirmed the deletion."""
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """The deletion failed, or cannot be attempted at present."""
    NON_EXISTENT = "NonExistentReplica"
    """Deleted, or never created."""


PREVIOUS_PARTITION_STATES: Final[dict[PartitionState, frozenset[PartitionState]]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
"""Target state -> valid previous states of a partition."""

PREVIOUS_REPLICA_STATES: Final[dict[ReplicaState, frozenset[ReplicaState]]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: frozenset(
        {ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE}
    ),
    ReplicaState.OFFLINE: frozenset(
        {ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE}
    ),
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset({ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}
"""Target state -> valid previous states of a replica."""
