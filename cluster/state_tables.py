"""The states of partitions and replicas and the moves between them, as data.

The controller's state machines move along these tables and the audit checks records against them, so they
stand where both can read them. Source: controller rules 6.1 and 7.1; Kafka PartitionState, ReplicaState.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class PartitionState(StrEnum):
    """Where a partition stands in the controller's partition state machine."""

    NEW = "NewPartition"
    """Has replicas and has never had a leader."""
    ONLINE = "OnlinePartition"
    """A leader has been elected."""
    OFFLINE = "OfflinePartition"
    """Had a leader, which is gone."""
    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""


class ReplicaState(StrEnum):
    """Where one replica stands in the controller's replica state machine."""

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
    """The deletion failed or cannot be tried now."""
    NON_EXISTENT = "NonExistentReplica"
    """Gone, or never created."""


PARTITION_STATE_SOURCES: Final[Mapping[PartitionState, frozenset[PartitionState]]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
"""Target state of a partition -> the states it may come from."""

REPLICA_STATE_SOURCES: Final[Mapping[ReplicaState, frozenset[ReplicaState]]] = {
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
"""Target state of a replica -> the states it may come from."""


def is_legal_partition_move(source: PartitionState, target: PartitionState) -> bool:
    return source in PARTITION_STATE_SOURCES[target]


def is_legal_replica_move(source: ReplicaState, target: ReplicaState) -> bool:
    return source in REPLICA_STATE_SOURCES[target]
