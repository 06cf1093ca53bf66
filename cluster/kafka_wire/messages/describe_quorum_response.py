"""DescribeQuorumResponse, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class ReplicaState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    replica_id: int = 0
    replica_directory_id: TopicId = ZERO_TOPIC_ID  # 2+
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1  # 1+
    last_caught_up_timestamp: int = -1  # 1+


class PartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""  # 2+
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class TopicData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    topic_name: str = ""
    partitions: tuple[PartitionData, ...] = ()


class Listener(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    name: str = ""  # 2+
    host: str = ""  # 2+
    port: int = 0  # 2+


class Node(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    node_id: int = 0  # 2+
    listeners: tuple[Listener, ...] = ()  # 2+


class DescribeQuorumResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    error_code: int = 0
    error_message: str | None = ""  # 2+
    topics: tuple[TopicData, ...] = ()
    nodes: tuple[Node, ...] = ()  # 2+
