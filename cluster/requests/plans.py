"""Plans of dry runs: the responses to `validate_only`."""

from msgspec import Struct

from cluster.model.broker import BrokerId, LeaderEpoch, PartitionEpoch


class DescribedPartition(Struct, frozen=True):
    """`leader` -1: none; epochs -1: the partition has no state znode."""

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
    """One partition before and after the first write."""

    topic: str
    before: DescribedPartition
    after: DescribedPartition


class PlannedRequest(Struct, frozen=True):
    """A control request that would be sent to `broker_id`, and its number of partitions; `name`: of the API.

    `delete`: a StopReplica that deletes replicas.
    """

    broker_id: BrokerId
    name: str
    partitions: int
    delete: bool = False


class PlannedSetting(Struct, frozen=True):
    """A config before and after; None: not set, so that a default applies."""

    resource_type: int
    resource_name: str
    name: str
    before: str | None
    after: str | None


class Plan(Struct, frozen=True):
    changes: tuple[PlannedChange, ...] = ()
    requests: tuple[PlannedRequest, ...] = ()
    settings: tuple[PlannedSetting, ...] = ()
