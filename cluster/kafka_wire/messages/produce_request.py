"""ProduceRequest, versions 0-11. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


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
