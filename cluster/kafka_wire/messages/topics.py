"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: CreatePartitionsRequest 0-3, CreatePartitionsResponse 0-3, CreateTopicsRequest 0-7,
CreateTopicsResponse 0-7, DeleteTopicsRequest 0-6, DeleteTopicsResponse 0-6, DescribeTopicPartitionsRequest 0,
DescribeTopicPartitionsResponse 0.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message
from cluster.model.broker import ZERO_TOPIC_ID, TopicId


class CreatePartitionsAssignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsRequest"

    broker_ids: tuple[int, ...] = ()


class CreatePartitionsTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsRequest"

    name: str = ""
    count: int = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = ()


class CreatePartitionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsRequest"

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: int = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsResponse"

    name: str = ""
    error_code: int = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsResponse"

    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


class CreatableReplicaAssignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsRequest"

    partition_index: int = 0
    broker_ids: tuple[int, ...] = ()


class CreatableTopicConfig(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsRequest"

    name: str = ""
    value: str | None = ""


class CreatableTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsRequest"

    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsRequest"

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: int = 60000
    validate_only: bool = False  # 1+


class CreatableTopicConfigs(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsResponse"

    name: str = ""  # 5+
    value: str | None = ""  # 5+
    read_only: bool = False  # 5+
    config_source: int = -1  # 5+
    is_sensitive: bool = False  # 5+


class CreatableTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsResponse"

    name: str = ""
    topic_id: TopicId = ZERO_TOPIC_ID  # 7+
    error_code: int = 0
    error_message: str | None = ""  # 1+
    topic_config_error_code: int = 0  # 5+
    num_partitions: int = -1  # 5+
    replication_factor: int = -1  # 5+
    configs: tuple[CreatableTopicConfigs, ...] | None = ()  # 5+


class CreateTopicsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsResponse"

    throttle_time_ms: int = 0  # 2+
    topics: tuple[CreatableTopicResult, ...] = ()


class DeleteTopicState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteTopicsRequest"

    name: str | None = None  # 6+
    topic_id: TopicId = ZERO_TOPIC_ID  # 6+


class DeleteTopicsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteTopicsRequest"

    topics: tuple[DeleteTopicState, ...] = ()  # 6+
    topic_names: tuple[str, ...] = ()  # 0-5
    timeout_ms: int = 0


class DeletableTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteTopicsResponse"

    name: str | None = ""
    topic_id: TopicId = ZERO_TOPIC_ID  # 6+
    error_code: int = 0
    error_message: str | None = None  # 5+


class DeleteTopicsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteTopicsResponse"

    throttle_time_ms: int = 0  # 1+
    responses: tuple[DeletableTopicResult, ...] = ()


class TopicRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsRequest"

    name: str = ""


class DescribeTopicPartitionsRequestCursor(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsRequest"

    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsRequest"

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: int = 2000
    cursor: DescribeTopicPartitionsRequestCursor | None = None


class DescribeTopicPartitionsResponsePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsResponse"

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


class DescribeTopicPartitionsResponseTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsResponse"

    error_code: int = 0
    name: str | None = ""
    topic_id: TopicId = ZERO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: int = -2147483648


class DescribeTopicPartitionsResponseCursor(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsResponse"

    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsResponse"

    throttle_time_ms: int = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None
