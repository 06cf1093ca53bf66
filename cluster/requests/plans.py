"""What a request would do, told without doing it: answers to `validate_only`."""

from msgspec import Struct

from cluster.broker import BrokerId, LeaderEpoch, PartitionEpoch


class DescribedPartition(Struct, frozen=True):
    """`leader` -1 none; epochs -1 while the partition has no state node."""

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    offline_replicas: tuple[BrokerId, ...] = ()


class PlannedChange(Struct, frozen=True):
    """One partition as it is and as it would be after the first write."""

    topic: str
    before: DescribedPartition
    after: DescribedPartition


class PlannedRequest(Struct, frozen=True):
    """A control request that would go to `broker_id`, with so many partitions; `name` is that of the call.

    `delete`: it is a StopReplica that deletes replicas.
    """

    broker_id: BrokerId
    name: str
    partitions: int
    delete: bool = False


class PlannedSetting(Struct, frozen=True):
    """A setting as it is written down and as it would be; None: not at all, so that a default holds."""

    resource_type: int
    resource_name: str
    name: str
    before: str | None
    after: str | None


class Plan(Struct, frozen=True):
    changes: tuple[PlannedChange, ...] = ()
    requests: tuple[PlannedRequest, ...] = ()
    settings: tuple[PlannedSetting, ...] = ()
