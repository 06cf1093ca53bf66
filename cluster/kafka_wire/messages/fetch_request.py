"""FetchRequest, versions 0-17. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class ReplicaState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchRequest"

    replica_id: int = -1  # 15+
    replica_epoch: int = -1  # 15+


class FetchPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchRequest"

    partition: int = 0
    current_leader_epoch: int = -1  # 9+
    fetch_offset: int = 0
    last_fetched_epoch: int = -1  # 12+
    log_start_offset: int = -1  # 5+
    partition_max_bytes: int = 0
    replica_directory_id: TopicId = ZERO_TOPIC_ID  # 17+


class FetchTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchRequest"

    topic: str = ""  # 0-12
    topic_id: TopicId = ZERO_TOPIC_ID  # 13+
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchRequest"

    topic: str = ""  # 7-12
    topic_id: TopicId = ZERO_TOPIC_ID  # 13+
    partitions: tuple[int, ...] = ()  # 7+


class FetchRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchRequest"

    cluster_id: str | None = None  # 12+
    replica_id: int = -1  # 0-14
    replica_state: ReplicaState = ReplicaState()  # 15+
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647  # 3+
    isolation_level: int = 0  # 4+
    session_id: int = 0  # 7+
    session_epoch: int = -1  # 7+
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()  # 7+
    rack_id: str = ""  # 11+
