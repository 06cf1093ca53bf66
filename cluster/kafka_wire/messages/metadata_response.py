"""MetadataResponse, versions 0-12. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


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
