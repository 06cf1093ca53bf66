"""Topic creation, listing, description, expansion and deletion."""

from typing import Annotated

from msgspec import Struct

from cluster.model import bounds
from cluster.model.broker import BrokerId, TopicId
from cluster.model.errors import ErrorCode, FieldViolation
from cluster.requests.field_types import AnyBrokerId, Int32, String
from cluster.requests.plans import DescribedPartition, Plan
from cluster.requests.request import RequestFor


class NewTopic(Struct, frozen=True):
    """`num_partitions` / `replication_factor` -1: the controller's default. With `assignments` (partition ->
    brokers) both must be -1.
    """

    name: String
    num_partitions: Annotated[int, bounds.NEW_PARTITIONS] = -1
    replication_factor: Annotated[int, bounds.REPLICATION_FACTOR] = -1
    assignments: Annotated[dict[int, tuple[BrokerId, ...]], bounds.INT32] = {}
    configs: Annotated[dict[str, str], bounds.TEXT] = {}


class CreateTopicsRequest(RequestFor["CreateTopicsResponse"], frozen=True):
    topics: tuple[NewTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class CreatableTopicResult(Struct, frozen=True):
    """`error_field` and `error_value`: the first invalid field; `violations`: all of them."""

    name: str
    error_code: ErrorCode
    error_message: str = ""
    error_field: str = ""
    error_value: str = ""
    topic_id: TopicId | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    violations: tuple[FieldViolation, ...] = ()


class CreateTopicsResponse(Struct, frozen=True):
    """`plan`: with `validate_only` only. `throttle_time_ms`: for how long a client over its quota is not heard."""

    topics: tuple[CreatableTopicResult, ...]
    plan: Plan | None = None
    throttle_time_ms: int = 0


class ListTopicsRequest(RequestFor["ListTopicsResponse"], frozen=True):
    pass


class ListedTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId | None
    partitions: int
    replication_factor: int


class ListTopicsResponse(Struct, frozen=True):
    topics: tuple[ListedTopic, ...]


class DescribeTopicsRequest(RequestFor["DescribeTopicsResponse"], frozen=True):
    """`topics` None: all of them."""

    topics: tuple[String, ...] | None = None


class DescribedTopic(Struct, frozen=True):
    """`configs`: overrides only; `min_insync_replicas`: the value in force, -1 if unknown."""

    name: str
    error_code: ErrorCode
    topic_id: TopicId | None = None
    configs: dict[str, str] = {}
    partitions: tuple[DescribedPartition, ...] = ()
    queued_for_deletion: bool = False
    min_insync_replicas: int = -1


class DescribeTopicsResponse(Struct, frozen=True):
    topics: tuple[DescribedTopic, ...]


class NewPartitionsAssignment(Struct, frozen=True):
    broker_ids: tuple[AnyBrokerId, ...]


class NewPartitions(Struct, frozen=True):
    """`count`: the total after the expansion. `assignments`: one per added partition; None: placed
    by the controller.
    """

    name: String
    count: Annotated[int, bounds.NEW_PARTITIONS]
    assignments: tuple[NewPartitionsAssignment, ...] | None = None


class CreatePartitionsRequest(RequestFor["CreatePartitionsResponse"], frozen=True):
    topics: tuple[NewPartitions, ...]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class CreatePartitionsResult(Struct, frozen=True):
    """`assignments`: the replicas of each added partition, also with `validate_only`."""

    name: str
    error_code: ErrorCode
    error_message: str | None = None
    assignments: dict[int, tuple[BrokerId, ...]] = {}


class CreatePartitionsResponse(Struct, frozen=True):
    """`plan`: with `validate_only` only. `throttle_time_ms`: for how long a client over its quota is not heard."""

    results: tuple[CreatePartitionsResult, ...]
    plan: Plan | None = None
    throttle_time_ms: int = 0


class TopicToDelete(Struct, frozen=True):
    """Identified by `name`, or by `topic_id` if the name is None."""

    name: String | None = None
    topic_id: TopicId | None = None


class DeleteTopicsRequest(RequestFor["DeleteTopicsResponse"], frozen=True):
    topics: tuple[TopicToDelete, ...]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class DeletableTopicResult(Struct, frozen=True):
    name: str | None
    topic_id: TopicId | None
    error_code: ErrorCode
    error_message: str | None = None


class DeleteTopicsResponse(Struct, frozen=True):
    """`plan`: with `validate_only` only; the part of the deletion that does not wait for brokers.

    `throttle_time_ms`: for how long a client over its quota is not heard.
    """

    responses: tuple[DeletableTopicResult, ...]
    plan: Plan | None = None
    throttle_time_ms: int = 0


class DescribeTopicDeletionsRequest(RequestFor["DescribeTopicDeletionsResponse"], frozen=True):
    """Progress of topic deletions. `topics` None: all that are queued."""

    topics: tuple[String, ...] | None = None


class WaitingReplica(Struct, frozen=True):
    """A replica that is not deleted yet: its replica state, and what it waits for."""

    partition: int
    broker_id: BrokerId
    state: str
    reason: str = ""


class DescribedTopicDeletion(Struct, frozen=True):
    """`state`: `on hold` (ineligible), `waiting`, `in progress`. `reason`: why it is on hold. Numbers of replicas."""

    topic: str
    state: str
    reason: str
    deleted_replicas: int
    replicas: int
    waiting: tuple[WaitingReplica, ...] = ()


class DescribeTopicDeletionsResponse(Struct, frozen=True):
    """Topics that are not queued for deletion are omitted."""

    deletions: tuple[DescribedTopicDeletion, ...]
