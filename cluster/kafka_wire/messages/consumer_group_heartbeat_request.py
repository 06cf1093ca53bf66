"""ConsumerGroupHeartbeatRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class TopicPartitions(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupHeartbeatRequest"

    topic_id: TopicId = ZERO_TOPIC_ID
    partitions: tuple[int, ...] = ()


class ConsumerGroupHeartbeatRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupHeartbeatRequest"

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None
