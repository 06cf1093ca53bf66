"""CreateTopicsResponse, versions 0-7. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class CreatableTopicConfigs(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsResponse"

    name: str = ""  # 5+
    value: str | None = ""  # 5+
    read_only: bool = False  # 5+
    config_source: int = -1  # 5+
    is_sensitive: bool = False  # 5+


class CreatableTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsResponse"

    name: str = ""
    topic_id: TopicId = ZERO_TOPIC_ID  # 7+
    error_code: int = 0
    error_message: str | None = ""  # 1+
    topic_config_error_code: int = 0  # 5+
    num_partitions: int = -1  # 5+
    replication_factor: int = -1  # 5+
    configs: tuple[CreatableTopicConfigs, ...] | None = ()  # 5+


class CreateTopicsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsResponse"

    throttle_time_ms: int = 0  # 2+
    topics: tuple[CreatableTopicResult, ...] = ()
