"""Leaders on demand, and what a shutdown would do to them."""

from msgspec import Struct

from cluster.broker import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId
from cluster.errors import ErrorCode
from cluster.requests.plans import Plan

PREFERRED = 0
UNCLEAN = 1


class ElectLeadersTopic(Struct, frozen=True):
    topic: str
    partitions: tuple[int, ...]


class ElectLeadersRequest(Struct, frozen=True):
    """`election_type`: PREFERRED or UNCLEAN. `topic_partitions` None: all of the cluster."""

    election_type: int = PREFERRED
    topic_partitions: tuple[ElectLeadersTopic, ...] | None = None
    timeout_ms: int = 60_000
    validate_only: bool = False


class PartitionElectionResult(Struct, frozen=True):
    partition_id: int
    error_code: ErrorCode
    error_message: str | None = None


class ReplicaElectionResult(Struct, frozen=True):
    topic: str
    partition_result: tuple[PartitionElectionResult, ...]


class ElectLeadersResponse(Struct, frozen=True):
    """`plan`: with `validate_only` only."""

    results: tuple[ReplicaElectionResult, ...]
    plan: Plan | None = None


class PlanControlledShutdownRequest(Struct, frozen=True):
    """What a controlled shutdown of this broker would do. Nothing is changed."""

    broker_id: BrokerId


class ThreatenedPartition(Struct, frozen=True):
    """How few in-sync replicas would be left, and how few are asked for."""

    topic: str
    partition: int
    isr_after: int
    min_insync_replicas: int


class PlanControlledShutdownResponse(Struct, frozen=True):
    """`leaderless`: would have no leader. `below_min_isr`: would refuse acks=all, and do not already."""

    leaderless: tuple[ThreatenedPartition, ...] = ()
    below_min_isr: tuple[ThreatenedPartition, ...] = ()
    plan: Plan = Plan()


class ShutdownRequest(Struct, frozen=True):
    """Ask a broker to leave in order, as a SIGTERM does. Refused by any other than this incarnation of it."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


class ShutdownResponse(Struct, frozen=True):
    """NONE: the shutdown has begun; the broker is gone when it is not listed any more."""

    error_code: ErrorCode
