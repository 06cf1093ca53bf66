"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: DeleteRecordsRequest 0-2, DeleteRecordsResponse 0-2, DescribeLogDirsRequest 0-4,
DescribeLogDirsResponse 0-4, ListOffsetsRequest 0-9, ListOffsetsResponse 0-9, MetadataRequest 0-12, MetadataResponse
0-12, ProduceRequest 0-11, ProduceResponse 0-11.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message
from cluster.model.broker import ZERO_TOPIC_ID, TopicId


class DeleteRecordsPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsRequest"

    partition_index: int = 0
    offset: int = 0


class DeleteRecordsTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsRequest"

    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsRequest"

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: int = 0


class DeleteRecordsPartitionResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsResponse"

    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


class DeleteRecordsTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsResponse"

    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsResponse"

    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()


class DescribableLogDirTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsRequest"

    topic: str = ""
    partitions: tuple[int, ...] = ()


class DescribeLogDirsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsRequest"

    topics: tuple[DescribableLogDirTopic, ...] | None = ()


class DescribeLogDirsPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsResponse"

    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsResponse"

    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsResponse"

    error_code: int = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: int = -1  # 4+
    usable_bytes: int = -1  # 4+


class DescribeLogDirsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0  # 3+
    results: tuple[DescribeLogDirsResult, ...] = ()


class ListOffsetsPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsRequest"

    partition_index: int = 0
    current_leader_epoch: int = -1  # 4+
    timestamp: int = 0
    max_num_offsets: int = 1  # 0


class ListOffsetsTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsRequest"

    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsRequest"

    replica_id: int = 0
    isolation_level: int = 0  # 2+
    topics: tuple[ListOffsetsTopic, ...] = ()


class ListOffsetsPartitionResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsResponse"

    partition_index: int = 0
    error_code: int = 0
    old_style_offsets: tuple[int, ...] = ()  # 0
    timestamp: int = -1  # 1+
    offset: int = -1  # 1+
    leader_epoch: int = -1  # 4+


class ListOffsetsTopicResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsResponse"

    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsResponse"

    throttle_time_ms: int = 0  # 2+
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


class MetadataRequestTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "MetadataRequest"

    topic_id: TopicId = ZERO_TOPIC_ID  # 10+
    name: str | None = ""


class MetadataRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "MetadataRequest"

    topics: tuple[MetadataRequestTopic, ...] | None = ()
    allow_auto_topic_creation: bool = True  # 4+
    include_cluster_authorized_operations: bool = False  # 8-10
    include_topic_authorized_operations: bool = False  # 8+


class MetadataResponseBroker(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "MetadataResponse"

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None  # 1+


class MetadataResponsePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "MetadataResponse"

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1  # 7+
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()  # 5+


class MetadataResponseTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "MetadataResponse"

    error_code: int = 0
    name: str | None = ""
    topic_id: TopicId = ZERO_TOPIC_ID  # 10+
    is_internal: bool = False  # 1+
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: int = -2147483648  # 8+


class MetadataResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "MetadataResponse"

    throttle_time_ms: int = 0  # 3+
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: str | None = None  # 2+
    controller_id: int = -1  # 1+
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: int = -2147483648  # 8-10


class PartitionProduceData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceRequest"

    index: int = 0
    records: bytes | None = None


class TopicProduceData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceRequest"

    name: str = ""
    partition_data: tuple[PartitionProduceData, ...] = ()


class ProduceRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceRequest"

    transactional_id: str | None = None  # 3+
    acks: int = 0
    timeout_ms: int = 0
    topic_data: tuple[TopicProduceData, ...] = ()


class BatchIndexAndErrorMessage(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    batch_index: int = 0  # 8+
    batch_index_error_message: str | None = None  # 8+


class ProduceResponseLeaderIdAndEpoch(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    leader_id: int = -1  # 10+
    leader_epoch: int = -1  # 10+


class PartitionProduceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1  # 2+
    log_start_offset: int = -1  # 5+
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()  # 8+
    error_message: str | None = None  # 8+
    current_leader: ProduceResponseLeaderIdAndEpoch = ProduceResponseLeaderIdAndEpoch()  # 10+


class TopicProduceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    name: str = ""
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class ProduceResponseNodeEndpoint(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    node_id: int = 0  # 10+
    host: str = ""  # 10+
    port: int = 0  # 10+
    rack: str | None = None  # 10+


class ProduceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: int = 0  # 1+
    node_endpoints: tuple[ProduceResponseNodeEndpoint, ...] = ()  # 10+
