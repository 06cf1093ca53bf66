"""Data requests of brokers and clients. Partitions are listed flat: (topic, partition) per item."""

from typing import Annotated, Final

from msgspec import Struct

from cluster.model import bounds
from cluster.model.annotations import Mark
from cluster.model.broker import (
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    UNKNOWN_OFFSET,
    BrokerEpoch,
    BrokerId,
    ControllerId,
    LeaderEpoch,
    Offset,
    TopicId,
)
from cluster.model.errors import ErrorCode, RecordError
from cluster.requests.field_types import (
    ClientItems,
    FetcherId,
    Int32,
    Int64,
    PartitionOfItem,
    String,
    TopicName,
    TopicOfItem,
)
from cluster.requests.request import RequestFor

CONSUMER: Final = BrokerId(-1)
"""The replica id of a consumer, and of every other client; a follower has its broker id."""
DEBUGGING_CONSUMER: Final = BrokerId(-2)
"""The replica id of a tool that reads all that a replica has, whether it leads or not."""


class FetchPartition(Struct, frozen=True):
    """`current_leader_epoch` and `last_fetched_epoch` are -1 when absent; `log_start_offset` -1 for consumers."""

    topic: TopicName
    topic_id: TopicId | None
    partition: Int32
    fetch_offset: Offset
    partition_max_bytes: Int32
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    last_fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH
    log_start_offset: Offset = UNKNOWN_OFFSET


NO_SESSION: Final = 0
"""The id of no fetch session."""
SESSIONLESS_EPOCH: Final = -1
"""The session epoch of a fetch that names all its partitions and asks for no session."""
FULL_FETCH_EPOCH: Final = 0
"""The session epoch of a fetch that names all its partitions and asks for a session."""


class ForgottenPartition(Struct, frozen=True):
    topic: TopicName
    partition: Int32


class FetchRequest(RequestFor["FetchResponse"], frozen=True):
    """`replica_id`: broker id of a follower, -1 consumer, -2 debugging consumer, -3 local log copy. Times in ms.

    `rack_id`: of a consumer that may read from followers; empty: it reads from leaders only. `session_epoch`: one of
    the constants above, or the number of the request in its session; then `partitions` are those that changed since the
    request before, and `forgotten_partitions` leave the session before the others join it. Source: KIP-227.
    """

    replica_id: FetcherId
    partitions: ClientItems[FetchPartition]
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32
    replica_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    isolation_level: Annotated[int, bounds.INT8_CODE] = 0
    rack_id: String = ""
    session_id: Int32 = NO_SESSION
    session_epoch: Int32 = SESSIONLESS_EPOCH
    forgotten_partitions: ClientItems[ForgottenPartition] = ()


class EpochEndOffset(Struct, frozen=True):
    """Both -1 when undefined. `end_offset` is exclusive."""

    epoch: LeaderEpoch
    end_offset: Offset


NO_READ_REPLICA: Final = BrokerId(-1)


class FetchPartitionData(Struct, frozen=True):
    """`preferred_read_replica`: the follower from which the consumer should read instead, -1 for none."""

    topic: str
    partition: int
    error_code: ErrorCode
    high_watermark: Offset = UNKNOWN_OFFSET
    last_stable_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    diverging_epoch: EpochEndOffset | None = None
    preferred_read_replica: BrokerId = NO_READ_REPLICA
    records: bytes = b""


class FetchResponse(Struct, frozen=True):
    """`throttle_time_ms`: for how long a client over its quota is not heard; its records follow later. `session_id`: of
    the session in which the next request may name what changed only. In such a session `partitions` are those that
    were named, and those that have records, an error or other offsets than were sent before.
    """

    error_code: ErrorCode
    partitions: tuple[FetchPartitionData, ...] = ()
    throttle_time_ms: int = 0
    session_id: int = NO_SESSION


class OffsetForLeaderPartition(Struct, frozen=True):
    topic: TopicName
    partition: Int32
    leader_epoch: LeaderEpoch
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class OffsetsForLeaderEpochRequest(RequestFor["OffsetsForLeaderEpochResponse"], frozen=True):
    replica_id: FetcherId
    partitions: ClientItems[OffsetForLeaderPartition]


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
MAX_TIMESTAMP = -3
"""The first record that has the largest timestamp. Source: KIP-734."""
EARLIEST_LOCAL_TIMESTAMP = -4
"""As EARLIEST_TIMESTAMP: all records are on the broker. Source: KIP-405."""


class ListOffsetsPartition(Struct, frozen=True):
    """`timestamp`: ms, or one of the constants above."""

    topic: TopicOfItem
    partition: PartitionOfItem
    timestamp: Int64
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ListOffsetsRequest(RequestFor["ListOffsetsResponse"], frozen=True):
    replica_id: FetcherId
    partitions: ClientItems[ListOffsetsPartition]
    isolation_level: Annotated[int, bounds.INT8_CODE] = 0


class ListOffsetsResult(Struct, frozen=True):
    topic: TopicOfItem
    partition: PartitionOfItem
    error_code: ErrorCode
    timestamp: int = -1
    offset: Offset = UNKNOWN_OFFSET
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ListOffsetsResponse(Struct, frozen=True):
    partitions: tuple[ListOffsetsResult, ...]


class ProducePartition(Struct, frozen=True):
    """`records`: exactly one record batch, version 2."""

    topic: TopicName
    partition: Int32
    records: Annotated[bytes, bounds.BYTES]


class ProduceRequest(RequestFor["ProduceResponse"], frozen=True):
    """`acks`: 0, 1 or -1 (all)."""

    acks: Int32
    timeout_ms: Int32
    partitions: ClientItems[ProducePartition]


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
    record_errors: tuple[RecordError, ...] = ()


class ProduceResponse(Struct, frozen=True):
    """`throttle_time_ms`: for how long a client over its quota is not heard."""

    partitions: tuple[ProducePartitionResult, ...]
    throttle_time_ms: int = 0


NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1


class InitProducerIdRequest(RequestFor["InitProducerIdResponse"], frozen=True):
    """Asks any broker for a producer id."""


class InitProducerIdResponse(Struct, frozen=True):
    """A producer id that nobody else has, and its epoch."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


UP_TO_HIGH_WATERMARK: Final = Offset(-1)


class DeleteRecordsPartition(Struct, frozen=True):
    """`offset`: the first to keep, or UP_TO_HIGH_WATERMARK."""

    topic: TopicOfItem
    partition: PartitionOfItem
    offset: Offset


class DeleteRecordsRequest(RequestFor["DeleteRecordsResponse"], frozen=True):
    """`timeout_ms`: how long to wait for the followers. `validate_only`: change nothing."""

    timeout_ms: Int32
    partitions: ClientItems[DeleteRecordsPartition]
    validate_only: bool = False


class DeleteRecordsResult(Struct, frozen=True):
    """`low_watermark`: the lowest log start of the leader and its live followers; -1 if unknown."""

    topic: TopicOfItem
    partition: PartitionOfItem
    error_code: ErrorCode
    low_watermark: Offset = UNKNOWN_OFFSET
    error_message: str = ""


class DeleteRecordsResponse(Struct, frozen=True):
    partitions: tuple[DeleteRecordsResult, ...]


class MetadataRequest(RequestFor["MetadataResponse"], frozen=True):
    """Read an agent's metadata cache. `topics` None: all."""

    topics: ClientItems[String] | None = None


class MetadataPartition(Struct, frozen=True):
    partition_index: int
    error_code: ErrorCode
    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    replica_nodes: tuple[BrokerId, ...]
    isr_nodes: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class MetadataTopic(Struct, frozen=True, weakref=True):
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
    topics: Annotated[tuple[MetadataTopic, ...], Mark.SHARED]
