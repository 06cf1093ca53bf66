"""DescribeTopicPartitionsRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class TopicRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsRequest"

    name: str = ""


class Cursor(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsRequest"

    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTopicPartitionsRequest"

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: int = 2000
    cursor: Cursor | None = None
