"""DescribeProducersRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class TopicRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeProducersRequest"

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class DescribeProducersRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeProducersRequest"

    topics: tuple[TopicRequest, ...] = ()
