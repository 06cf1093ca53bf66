"""DeleteTopicsResponse, versions 0-6. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class DeletableTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteTopicsResponse"

    name: str | None = ""
    topic_id: TopicId = ZERO_TOPIC_ID  # 6+
    error_code: int = 0
    error_message: str | None = None  # 5+


class DeleteTopicsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteTopicsResponse"

    throttle_time_ms: int = 0  # 1+
    responses: tuple[DeletableTopicResult, ...] = ()
