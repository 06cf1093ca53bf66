"""Leader elections, and shutdown of brokers."""

from typing import Annotated

from msgspec import Struct

from cluster.model.annotations import KafkaName
from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerEpoch
from cluster.model.errors import ErrorCode
from cluster.requests.field_types import AnyBrokerId, Int32, String
from cluster.requests.plans import Plan
from cluster.requests.request import RequestFor

PREFERRED = 0
UNCLEAN = 1


class ElectLeadersTopic(Struct, frozen=True):
    topic: String
    partitions: tuple[Int32, ...]


class ElectLeadersRequest(RequestFor["ElectLeadersResponse"], frozen=True):
    """`election_type`: PREFERRED or UNCLEAN. `topic_partitions` None: all of the cluster. `awaits_leaders`: whether the
    answer comes when the new leaders acknowledged, at the latest after the timeout, or when they are elected.
    """

    election_type: Int32 = PREFERRED
    topic_partitions: tuple[ElectLeadersTopic, ...] | None = None
    timeout_ms: Int32 = 60_000
    validate_only: bool = False
    awaits_leaders: bool = True


class PartitionElectionResult(Struct, frozen=True):
    partition_id: int
    error_code: ErrorCode
    error_message: str | None = None


class ReplicaElectionResult(Struct, frozen=True):
    topic: str
    partition_result: tuple[PartitionElectionResult, ...]


class ElectLeadersResponse(Struct, frozen=True):
    """`plan`: with `validate_only` only."""

    results: Annotated[tuple[ReplicaElectionResult, ...], KafkaName("replica_election_results")]
    plan: Plan | None = None


class PlanControlledShutdownRequest(RequestFor["PlanControlledShutdownResponse"], frozen=True):
    """Dry run of a controlled shutdown of this broker."""

    broker_id: AnyBrokerId


class ThreatenedPartition(Struct, frozen=True):
    """In-sync replicas that would remain, and the minimum required."""

    topic: str
    partition: int
    isr_after: int
    min_insync_replicas: int


class PlanControlledShutdownResponse(Struct, frozen=True):
    """`leaderless`: would lose their leader. `below_min_isr`: would start to refuse acks=all."""

    leaderless: tuple[ThreatenedPartition, ...] = ()
    below_min_isr: tuple[ThreatenedPartition, ...] = ()
    plan: Plan = Plan()


class ShutdownRequest(RequestFor["ShutdownResponse"], frozen=True):
    """Shut a broker down gracefully, as SIGTERM does. Refused by other incarnations of the broker."""

    broker_id: AnyBrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


class ShutdownResponse(Struct, frozen=True):
    """NONE: the shutdown has started; the broker has stopped once it is no longer listed."""

    error_code: ErrorCode
