"""Requests and answers that cross a process border, in domain types.

An inbound request enters a node as `handle(context, request) -> response` with these types; the gRPC
servicers only convert. Field names are those of Kafka's protocol. An answer's `error_code` is that of
the whole request; items carry their own.
"""

from typing import Any

from msgspec import Struct, field

from cluster.broker import (
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    UNKNOWN_OFFSET,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from cluster.errors import ErrorCode
from cluster.partition import RECOVERED, TopicPartition


class RequestContext(Struct, frozen=True):
    """What is known of a caller besides the request itself. `timeout_ms` is None without a deadline."""

    peer: str = ""
    principal: str = "ANONYMOUS"
    timeout_ms: int | None = None
    request_id: str = ""


# Controller to broker


class LeaderAndIsrPartitionState(Struct, frozen=True):
    partition_index: int
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    is_new: bool = False
    leader_recovery_state: int = RECOVERED


class LeaderAndIsrTopicState(Struct, frozen=True):
    topic_name: str
    topic_id: TopicId | None
    partition_states: tuple[LeaderAndIsrPartitionState, ...]


class LiveLeader(Struct, frozen=True):
    broker_id: BrokerId
    host: str
    port: int


class LeaderAndIsrRequest(Struct, frozen=True):
    """`encoded` is a scratch pad that all requests of one batch share: the codec keeps the bytes of
    partition states there, so that a state which several requests carry is serialised once.
    """

    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    topic_states: tuple[LeaderAndIsrTopicState, ...]
    live_leaders: tuple[LiveLeader, ...] = ()
    encoded: dict[int, Any] = field(default_factory=dict)


class LeaderAndIsrPartitionError(Struct, frozen=True):
    topic_name: str
    topic_id: TopicId | None
    partition_index: int
    error_code: ErrorCode


class LeaderAndIsrResponse(Struct, frozen=True):
    error_code: ErrorCode
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()


class StopReplicaPartitionState(Struct, frozen=True):
    topic_name: str
    partition_index: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    delete_partition: bool = False


class StopReplicaRequest(Struct, frozen=True):
    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partition_states: tuple[StopReplicaPartitionState, ...]


class StopReplicaPartitionError(Struct, frozen=True):
    topic_name: str
    partition_index: int
    error_code: ErrorCode


class StopReplicaResponse(Struct, frozen=True):
    error_code: ErrorCode
    partition_errors: tuple[StopReplicaPartitionError, ...] = ()


class UpdateMetadataPartitionState(Struct, frozen=True):
    partition_index: int
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...] = ()


class UpdateMetadataTopicState(Struct, frozen=True):
    topic_name: str
    topic_id: TopicId | None
    partition_states: tuple[UpdateMetadataPartitionState, ...]


class UpdateMetadataRequest(Struct, frozen=True):
    """`live_brokers` carries id, endpoints and rack; features stay behind. `encoded`: see LeaderAndIsrRequest."""

    controller_id: ControllerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    topic_states: tuple[UpdateMetadataTopicState, ...]
    live_brokers: tuple[Broker, ...]
    encoded: dict[int, Any] = field(default_factory=dict)


class UpdateMetadataResponse(Struct, frozen=True):
    error_code: ErrorCode


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


# Broker to controller


class AlterPartitionItem(Struct, frozen=True):
    """One proposal. The topic is addressed by id; by name only where the topic has no id."""

    topic_name: str
    topic_id: TopicId | None
    partition_index: int
    leader_epoch: LeaderEpoch
    new_isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    leader_recovery_state: int = RECOVERED


class AlterPartitionRequest(Struct, frozen=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[AlterPartitionItem, ...]


class AlterPartitionResult(Struct, frozen=True):
    """The fields after `error_code` mean something on success only."""

    topic_name: str
    topic_id: TopicId | None
    partition_index: int
    error_code: ErrorCode
    leader_id: BrokerId = BrokerId(-1)
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    isr: tuple[BrokerId, ...] = ()
    leader_recovery_state: int = RECOVERED
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)


class AlterPartitionResponse(Struct, frozen=True):
    error_code: ErrorCode
    partitions: tuple[AlterPartitionResult, ...] = ()


class ControlledShutdownRequest(Struct, frozen=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


class ControlledShutdownResponse(Struct, frozen=True):
    error_code: ErrorCode
    remaining_partitions: tuple[TopicPartition, ...] = ()


# Broker to broker, client to broker. Partitions are listed flat: (topic, partition) per item.


class FetchPartition(Struct, frozen=True):
    """`current_leader_epoch` and `last_fetched_epoch` are -1 when absent; `log_start_offset` -1 for consumers."""

    topic: str
    topic_id: TopicId | None
    partition: int
    fetch_offset: Offset
    partition_max_bytes: int
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    last_fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH
    log_start_offset: Offset = UNKNOWN_OFFSET


class FetchRequest(Struct, frozen=True):
    """`replica_id`: broker id of a follower, -1 consumer, -2 debugging consumer, -3 local log copy. Times in ms."""

    replica_id: BrokerId
    partitions: tuple[FetchPartition, ...]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    replica_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    isolation_level: int = 0


class EpochEndOffset(Struct, frozen=True):
    """Both -1 when undefined. `end_offset` is exclusive."""

    epoch: LeaderEpoch
    end_offset: Offset


class FetchPartitionData(Struct, frozen=True):
    topic: str
    partition: int
    error_code: ErrorCode
    high_watermark: Offset = UNKNOWN_OFFSET
    last_stable_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    diverging_epoch: EpochEndOffset | None = None
    preferred_read_replica: BrokerId = BrokerId(-1)
    records: bytes = b""


class FetchResponse(Struct, frozen=True):
    error_code: ErrorCode
    partitions: tuple[FetchPartitionData, ...] = ()


class OffsetForLeaderPartition(Struct, frozen=True):
    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class OffsetsForLeaderEpochRequest(Struct, frozen=True):
    replica_id: BrokerId
    partitions: tuple[OffsetForLeaderPartition, ...]


class OffsetForLeaderResult(Struct, frozen=True):
    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    end_offset: Offset = UNKNOWN_OFFSET


class OffsetsForLeaderEpochResponse(Struct, frozen=True):
    partitions: tuple[OffsetForLeaderResult, ...]


LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


class ListOffsetsPartition(Struct, frozen=True):
    """`timestamp`: ms, or LATEST_TIMESTAMP, or EARLIEST_TIMESTAMP."""

    topic: str
    partition: int
    timestamp: int
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ListOffsetsRequest(Struct, frozen=True):
    replica_id: BrokerId
    partitions: tuple[ListOffsetsPartition, ...]
    isolation_level: int = 0


class ListOffsetsResult(Struct, frozen=True):
    topic: str
    partition: int
    error_code: ErrorCode
    timestamp: int = -1
    offset: Offset = UNKNOWN_OFFSET
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ListOffsetsResponse(Struct, frozen=True):
    partitions: tuple[ListOffsetsResult, ...]


class ProducePartition(Struct, frozen=True):
    """`records`: exactly one record batch, version 2."""

    topic: str
    partition: int
    records: bytes


class ProduceRequest(Struct, frozen=True):
    """`acks`: 0, 1 or -1 (all)."""

    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]


class ProducePartitionResult(Struct, frozen=True):
    topic: str
    partition: int
    error_code: ErrorCode
    base_offset: Offset = UNKNOWN_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: Offset = UNKNOWN_OFFSET
    error_message: str = ""
    current_leader_id: BrokerId = BrokerId(-1)
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ProduceResponse(Struct, frozen=True):
    partitions: tuple[ProducePartitionResult, ...]


class MetadataRequest(Struct, frozen=True):
    """Ask an agent's metadata cache. `topics` None: all of them."""

    topics: tuple[str, ...] | None = None


class MetadataPartition(Struct, frozen=True):
    partition_index: int
    error_code: ErrorCode
    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    replica_nodes: tuple[BrokerId, ...]
    isr_nodes: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class MetadataTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId | None
    error_code: ErrorCode
    partitions: tuple[MetadataPartition, ...] = ()


class MetadataBroker(Struct, frozen=True):
    node_id: BrokerId
    host: str
    port: int
    rack: str | None = None


class MetadataResponse(Struct, frozen=True):
    brokers: tuple[MetadataBroker, ...]
    cluster_id: str
    controller_id: ControllerId
    topics: tuple[MetadataTopic, ...]


# Every process


class DescribeClusterRequest(Struct, frozen=True):
    pass


class DescribedBroker(Struct, frozen=True):
    """`state`: `running`, or `shutting_down` between a controlled shutdown request and the broker's end."""

    id: BrokerId
    endpoint: Endpoint
    epoch: BrokerEpoch
    rack: str | None = None
    state: str = "running"


class DescribeClusterResponse(Struct, frozen=True):
    """`controller_address` is empty and `controller_id` -1 while nobody is in office."""

    cluster_id: str
    controller_id: ControllerId
    controller_address: str
    controller_epoch: ControllerEpoch
    brokers: tuple[DescribedBroker, ...]
    node_id: int = -1
    node_role: str = ""


class ReadStateChangesRequest(Struct, frozen=True):
    """Records of this node's state-change log; an empty `topic` means all, `partition` -1 all of the topic."""

    topic: str = ""
    partition: int = -1


class ReadStateChangesResponse(Struct, frozen=True):
    """One JSON line of the log per item, oldest first. Large answers are cut: `truncated`."""

    lines: tuple[bytes, ...]
    truncated: bool = False


# Administration of the active controller


class NewTopic(Struct, frozen=True):
    """`num_partitions` / `replication_factor` -1: the controller's default. With `assignments` (partition ->
    brokers) both must be -1.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: dict[int, tuple[BrokerId, ...]] = {}
    configs: dict[str, str] = {}


class CreateTopicsRequest(Struct, frozen=True):
    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class CreatableTopicResult(Struct, frozen=True):
    """`error_field` / `error_value` name what was wrong with the request."""

    name: str
    error_code: ErrorCode
    error_message: str = ""
    error_field: str = ""
    error_value: str = ""
    topic_id: TopicId | None = None
    num_partitions: int = -1
    replication_factor: int = -1


class CreateTopicsResponse(Struct, frozen=True):
    topics: tuple[CreatableTopicResult, ...]


class ListTopicsRequest(Struct, frozen=True):
    pass


class ListedTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId | None
    partitions: int
    replication_factor: int


class ListTopicsResponse(Struct, frozen=True):
    topics: tuple[ListedTopic, ...]


class DescribeTopicsRequest(Struct, frozen=True):
    """`topics` None: all of them."""

    topics: tuple[str, ...] | None = None


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


class DescribedTopic(Struct, frozen=True):
    name: str
    error_code: ErrorCode
    topic_id: TopicId | None = None
    configs: dict[str, str] = {}
    partitions: tuple[DescribedPartition, ...] = ()


class DescribeTopicsResponse(Struct, frozen=True):
    topics: tuple[DescribedTopic, ...]
