"""Partition reassignment. Source: KIP-455."""

from msgspec import Struct

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests.field_types import AnyBrokerId, Int32, String
from cluster.requests.plans import Plan
from cluster.requests.request import RequestFor


class ReassignablePartition(Struct, frozen=True):
    """`replicas` None: cancel."""

    partition_index: Int32
    replicas: tuple[AnyBrokerId, ...] | None


class ReassignableTopic(Struct, frozen=True):
    name: String
    partitions: tuple[ReassignablePartition, ...]


class AlterPartitionReassignmentsRequest(RequestFor["AlterPartitionReassignmentsResponse"], frozen=True):
    topics: tuple[ReassignableTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class ReassignablePartitionResponse(Struct, frozen=True):
    partition_index: int
    error_code: ErrorCode
    error_message: str | None = None


class ReassignableTopicResponse(Struct, frozen=True):
    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


class AlterPartitionReassignmentsResponse(Struct, frozen=True):
    """NONE means accepted and recorded, not completed. `plan`: with `validate_only` only."""

    responses: tuple[ReassignableTopicResponse, ...]
    plan: Plan | None = None


class ListPartitionReassignmentsTopics(Struct, frozen=True):
    name: String
    partition_indexes: tuple[Int32, ...]


class ListPartitionReassignmentsRequest(RequestFor["ListPartitionReassignmentsResponse"], frozen=True):
    """`topics` None: all that are being reassigned."""

    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None
    timeout_ms: Int32 = 60_000


class OngoingPartitionReassignment(Struct, frozen=True):
    partition_index: int
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...]
    removing_replicas: tuple[BrokerId, ...]


class OngoingTopicReassignment(Struct, frozen=True):
    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


class ListPartitionReassignmentsResponse(Struct, frozen=True):
    """Partitions that are not being reassigned are omitted."""

    topics: tuple[OngoingTopicReassignment, ...]


class DescribeReassignmentsRequest(RequestFor["DescribeReassignmentsResponse"], frozen=True):
    """Progress of reassignments. `topics` None: all."""

    topics: tuple[String, ...] | None = None


class TargetReplica(Struct, frozen=True):
    broker_id: BrokerId
    in_sync: bool
    alive: bool


class DescribedReassignment(Struct, frozen=True):
    """`targets`: in the requested order. `stuck_reason`: empty while it only waits for replicas to catch up."""

    topic: str
    partition: int
    leader: BrokerId
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...]
    removing_replicas: tuple[BrokerId, ...]
    targets: tuple[TargetReplica, ...]
    stuck_reason: str = ""


class DescribeReassignmentsResponse(Struct, frozen=True):
    reassignments: tuple[DescribedReassignment, ...]
