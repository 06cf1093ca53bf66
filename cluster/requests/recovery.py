"""Recovery of a cluster whose ZooKeeper was restored from a backup: what brokers know, and what is made of it."""

from msgspec import Struct

from cluster.model.broker import (
    NO_LEADER_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from cluster.requests.plans import DescribedPartition
from cluster.requests.request import RequestFor


class DescribeReplicasRequest(RequestFor["DescribeReplicasResponse"], frozen=True):
    """The controller asks a broker what it has and knows. `recovers`: the recovery is carried out now, and the next
    controller will have an epoch above the one in the response.
    """

    recovers: bool = False


class DescribedReplica(Struct, frozen=True):
    """One log. `leader_epoch`: the highest known, `log_epoch`: the latest in the log; -1 none."""

    topic: str
    topic_id: TopicId | None
    partition: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    log_epoch: LeaderEpoch = NO_LEADER_EPOCH
    log_end_offset: Offset = Offset(0)
    high_watermark: Offset = Offset(0)


class KnownLeadership(Struct, frozen=True):
    """The newest leadership that a broker knows of a partition, hosted there or not."""

    topic: str
    topic_id: TopicId | None
    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()


class DescribeReplicasResponse(Struct, frozen=True):
    """`controller_epoch`: the highest known, 0 none. `producer_id`: the highest in any log, -1 none. `replicas`: every
    log, whether its partition is hosted at present or not.
    """

    broker_id: BrokerId
    controller_epoch: ControllerEpoch
    producer_id: int = -1
    replicas: tuple[DescribedReplica, ...] = ()
    leaderships: tuple[KnownLeadership, ...] = ()


class RecoveredPartition(Struct, frozen=True):
    """One partition before and after. `last_isr`: the newest ISR known to any broker, all replicas if none is known;
    `absent`: its members that did not respond or have no replica. `log_end_offset`: of the new leader.
    """

    topic: str
    before: DescribedPartition
    after: DescribedPartition
    last_isr: tuple[BrokerId, ...] = ()
    absent: tuple[BrokerId, ...] = ()
    log_end_offset: Offset = Offset(0)


class ClusterRecovery(Struct, frozen=True):
    """A recovery as planned or as carried out; `partitions` are those that change.

    `only_on_brokers`: topics that are created with the ids they have there; `only_in_zookeeper`: topics of which no
    broker that responded has a replica, left as they are. `silent_brokers`: registered, without a response. `refusals`:
    why it is refused. The next controller's epoch is the one after `controller_epoch`. Producer ids are allocated above
    `last_producer_id`, -1: as before.
    """

    partitions: tuple[RecoveredPartition, ...] = ()
    only_on_brokers: tuple[str, ...] = ()
    only_in_zookeeper: tuple[str, ...] = ()
    silent_brokers: tuple[BrokerId, ...] = ()
    refusals: tuple[str, ...] = ()
    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    last_producer_id: int = -1


class PlanClusterRecoveryRequest(RequestFor["PlanClusterRecoveryResponse"], frozen=True):
    """`accept_loss`: plan also what loses records."""

    accept_loss: bool = False


class PlanClusterRecoveryResponse(Struct, frozen=True):
    recovery: ClusterRecovery


class RecoverClusterRequest(RequestFor["RecoverClusterResponse"], frozen=True):
    """`accept_loss`: continue although replicas are absent that may have records which no other has."""

    accept_loss: bool = False


class RecoverClusterResponse(Struct, frozen=True):
    """The recovery as carried out; the controller has resigned."""

    recovery: ClusterRecovery
