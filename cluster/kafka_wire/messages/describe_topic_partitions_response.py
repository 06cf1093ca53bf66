"""DescribeTopicPartitionsResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


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


class Cursor(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsResponse"

    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsResponse"

    throttle_time_ms: int = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Cursor | None = None
