"""UpdateMetadataRequest, versions 0-8. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class UpdateMetadataPartitionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    topic_name: str = ""  # 0-4
    partition_index: int = 0
    controller_epoch: int = 0
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    zk_version: int = 0
    replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()  # 4+


class UpdateMetadataTopicState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    topic_name: str = ""  # 5+
    topic_id: TopicId = ZERO_TOPIC_ID  # 7+
    partition_states: tuple[UpdateMetadataPartitionState, ...] = ()  # 5+


class UpdateMetadataEndpoint(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    port: int = 0  # 1+
    host: str = ""  # 1+
    listener: str = ""  # 3+
    security_protocol: int = 0  # 1+


class UpdateMetadataBroker(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    id: int = 0
    v0_host: str = ""  # 0
    v0_port: int = 0  # 0
    endpoints: tuple[UpdateMetadataEndpoint, ...] = ()  # 1+
    rack: str | None = ""  # 2+


class UpdateMetadataRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataRequest"

    controller_id: int = 0
    is_kraft_controller: bool = False  # 8+
    type: int = 0  # 8+
    controller_epoch: int = 0
    broker_epoch: int = -1  # 5+
    ungrouped_partition_states: tuple[UpdateMetadataPartitionState, ...] = ()  # 0-4
    topic_states: tuple[UpdateMetadataTopicState, ...] = ()  # 5+
    live_brokers: tuple[UpdateMetadataBroker, ...] = ()
