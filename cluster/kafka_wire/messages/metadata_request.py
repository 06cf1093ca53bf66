"""MetadataRequest, versions 0-12. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class MetadataRequestTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "MetadataRequest"

    topic_id: TopicId = ZERO_TOPIC_ID  # 10+
    name: str | None = ""


class MetadataRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "MetadataRequest"

    topics: tuple[MetadataRequestTopic, ...] | None = ()
    allow_auto_topic_creation: bool = True  # 4+
    include_cluster_authorized_operations: bool = False  # 8-10
    include_topic_authorized_operations: bool = False  # 8+
