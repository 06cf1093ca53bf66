"""The states of partitions and replicas and the moves between them: one table each, read by everybody.

The controller carries out the moves, the invariants check recorded ones against the same tables, and the
documentation is made from them. Source: Kafka PartitionStateMachine, ReplicaStateMachine.
"""

from enum import StrEnum
from typing import Final


class PartitionState(StrEnum):
    """Where a partition stands with its controller."""

    NEW = "NewPartition"
    """Has replicas, has never had a leader."""
    ONLINE = "OnlinePartition"
    """A leader has been elected."""
    OFFLINE = "OfflinePartition"
    """Had a leader, which is gone."""
    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted; also what a partition without a recorded state counts as."""


class ReplicaState(StrEnum):
    """Where one replica stands with its controller."""

    NEW = "NewReplica"
    """Being created; may only be told to follow."""
    ONLINE = "OnlineReplica"
    """Serving; may lead or follow."""
    OFFLINE = "OfflineReplica"
    """Its broker or disk is gone, or it is being removed."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    """Its broker was told to delete it."""
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """Its broker confirmed the deletion."""
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """The deletion failed, or cannot be attempted now."""
    NON_EXISTENT = "NonExistentReplica"
    """Gone, or never there."""


PREVIOUS_PARTITION_STATES: Final[dict[PartitionState, frozenset[PartitionState]]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
"""Target state -> the states from which a partition may enter it."""

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
"""Target state -> the states from which a replica may enter it."""
