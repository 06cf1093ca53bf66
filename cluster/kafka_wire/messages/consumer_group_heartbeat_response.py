"""ConsumerGroupHeartbeatResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class TopicPartitions(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupHeartbeatResponse"

    topic_id: TopicId = ZERO_TOPIC_ID
    partitions: tuple[int, ...] = ()


class Assignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupHeartbeatResponse"

    topic_partitions: tuple[TopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupHeartbeatResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
