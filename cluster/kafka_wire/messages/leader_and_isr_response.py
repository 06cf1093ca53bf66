"""LeaderAndIsrResponse, versions 0-7. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class LeaderAndIsrPartitionError(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrResponse"

    topic_name: str = ""  # 0-4
    partition_index: int = 0
    error_code: int = 0


class LeaderAndIsrTopicError(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrResponse"

    topic_id: TopicId = ZERO_TOPIC_ID  # 5+
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()  # 5+


class LeaderAndIsrResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaderAndIsrResponse"

    error_code: int = 0
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()  # 0-4
    topics: tuple[LeaderAndIsrTopicError, ...] = ()  # 5+
