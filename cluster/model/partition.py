"""Partitions, replica assignments and leadership."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch

RECOVERED: Final = 0
RECOVERING: Final = 1
"""Leader recovery state after an unclean election, until the leader reports that it recovered."""


class TopicPartition(NamedTuple):
    """One partition of one topic; written `topic-partition`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


# Values that occur by the hundred thousand are not tracked by the cyclic garbage collector (gc=False): of numbers and
# tuples of numbers no cycle can be made, and its passes over them lengthen a failover.


class LeaderAndIsr(Struct, frozen=True, gc=False):
    """The content of a partition's state znode, with its data version (`partition_epoch`).

    `leader` is NO_LEADER (-1) for none. `isr` keeps its order. `controller_epoch` is that of the controller that made
    the decision. Source: Kafka LeaderIsrAndControllerEpoch.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch
    partition_epoch: PartitionEpoch
    leader_recovery_state: int = RECOVERED


class ReplicaAssignment(Struct, frozen=True, gc=False):
    """Full replica list of a partition, and the replicas that a reassignment adds and removes.

    Order matters: the first of `replicas` is the preferred replica. Source: Kafka ReplicaAssignment; KIP-455.
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def original(self) -> tuple[BrokerId, ...]:
        """The replicas before the reassignment: all without the adding ones."""
        return _without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas after the reassignment: all without the removing ones."""
        return _without(self.replicas, self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Sequence[BrokerId]) -> "ReplicaAssignment":
        """Start a reassignment to `target` from the original replicas; it replaces an ongoing one."""
        original = self.original
        replicas = tuple(dict.fromkeys((*target, *original)))
        return ReplicaAssignment(
            replicas=replicas, adding=_without(replicas, original), removing=_without(replicas, target)
        )


EMPTY_ASSIGNMENT: Final = ReplicaAssignment(replicas=())


class TopicAssignment(Struct, frozen=True):
    """The content of a topic znode: topic id (None if there is none) and the assignment of each partition."""

    partitions: dict[int, ReplicaAssignment]
    topic_id: str | None = None


def _without(replicas: Iterable[BrokerId], gone: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    dropped = set(gone)
    return tuple(b for b in replicas if b not in dropped)
