"""ElectLeadersRequest, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class TopicPartitions(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ElectLeadersRequest"

    topic: str = ""
    partitions: tuple[int, ...] = ()


class ElectLeadersRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ElectLeadersRequest"

    election_type: int = 0  # 1+
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: int = 60000
