"""DescribeLogDirsRequest, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribableLogDirTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsRequest"

    topic: str = ""
    partitions: tuple[int, ...] = ()


class DescribeLogDirsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsRequest"

    topics: tuple[DescribableLogDirTopic, ...] | None = ()
