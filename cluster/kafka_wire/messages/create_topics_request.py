"""CreateTopicsRequest, versions 0-7. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class CreatableReplicaAssignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsRequest"

    partition_index: int = 0
    broker_ids: tuple[int, ...] = ()


class CreatableTopicConfig(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsRequest"

    name: str = ""
    value: str | None = ""


class CreatableTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsRequest"

    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateTopicsRequest"

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: int = 60000
    validate_only: bool = False  # 1+
