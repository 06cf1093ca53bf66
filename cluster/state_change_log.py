"""The state-change record: one typed line for each thing that changed, and where such lines go.

Written after ZooKeeper acknowledged a change and before the requests about it are queued. The audit, the
simulator's checkers and `klamm story` all read these records: they are an interface, version 1.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from cluster.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch

STATE_CHANGE_VERSION: Final = 1


class Kind(StrEnum):
    """What a record is about."""

    CONTROLLER = "controller"
    """A controller took or left office: to_state `active` or `resigned`, controller_epoch, broker = its id."""
    LOADED = "loaded"
    """One per topic on activation: `partitions` gives the start state of each of its partitions."""
    BROKER = "broker"
    """The controller saw a broker come or go: to_state `live`, `dead` or `bounced`."""
    TOPIC = "topic"
    """A topic became known (`created`) or vanished (`removed`)."""
    PARTITION = "partition"
    """A partition state machine transition, with the leadership written for it, if any."""
    REPLICA = "replica"
    """A replica state machine transition; `broker` is the replica's broker."""
    ISR = "isr"
    """Leadership written without a transition: an accepted AlterPartition, or the removal of a dead replica."""
    ROLE = "role"
    """An agent took a role for a partition: to_state `leader`, `follower`, `stopped`, `deleted` or `offline`."""
    TRUNCATION = "truncation"
    """A follower cut its log; `reason` says from where to where."""
    REGISTRATION = "registration"
    """An agent registered (to_state `registered`) or lost its registration (`expired`); `reason` has the epoch."""


class Cause(Struct, frozen=True, omit_defaults=True):
    """What led to the change: the event or request, and its number within the process."""

    event: str
    id: int = 0


class LoadedPartition(Struct, frozen=True, array_like=True):
    """Start state of one partition: an array on the wire. `leader_epoch` is -1 where there is no state node."""

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch


class StateChange(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the writer says; the sink adds version, sequence, chain, node, incarnation and time.

    Absent (None) where a field means nothing. `leader` -1 is none. States are the names of the state
    tables, e.g. `OnlinePartition`, `OfflineReplica`.
    """

    kind: Kind
    cause: Cause | None = None
    controller_epoch: ControllerEpoch | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    from_state: str | None = None
    to_state: str | None = None
    leader: BrokerId | None = None
    leader_epoch: LeaderEpoch | None = None
    partition_epoch: PartitionEpoch | None = None
    isr: tuple[BrokerId, ...] | None = None
    replicas: tuple[BrokerId, ...] | None = None
    partitions: tuple[LoadedPartition, ...] | None = None
    reason: str | None = None


class StateChangeSink(Protocol):
    """Where a node's records go. Called on the event loop; one call is one write."""

    def append(self, changes: Sequence[StateChange]) -> None:
        """Number, stamp and store the records in this order. An empty sequence writes nothing."""
        ...
