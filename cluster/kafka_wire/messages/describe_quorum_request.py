"""DescribeQuorumRequest, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class PartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumRequest"

    partition_index: int = 0


class TopicData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumRequest"

    topic_name: str = ""
    partitions: tuple[PartitionData, ...] = ()


class DescribeQuorumRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumRequest"

    topics: tuple[TopicData, ...] = ()
