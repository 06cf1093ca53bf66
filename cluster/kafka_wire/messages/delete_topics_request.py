"""DeleteTopicsRequest, versions 0-6. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class DeleteTopicState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteTopicsRequest"

    name: str | None = None  # 6+
    topic_id: TopicId = ZERO_TOPIC_ID  # 6+


class DeleteTopicsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteTopicsRequest"

    topics: tuple[DeleteTopicState, ...] = ()  # 6+
    topic_names: tuple[str, ...] = ()  # 0-5
    timeout_ms: int = 0
