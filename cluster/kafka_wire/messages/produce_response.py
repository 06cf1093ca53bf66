"""ProduceResponse, versions 0-11. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class BatchIndexAndErrorMessage(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    batch_index: int = 0  # 8+
    batch_index_error_message: str | None = None  # 8+


class LeaderIdAndEpoch(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    leader_id: int = -1  # 10+
    leader_epoch: int = -1  # 10+


class PartitionProduceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1  # 2+
    log_start_offset: int = -1  # 5+
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()  # 8+
    error_message: str | None = None  # 8+
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()  # 10+


class TopicProduceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    name: str = ""
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class NodeEndpoint(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    node_id: int = 0  # 10+
    host: str = ""  # 10+
    port: int = 0  # 10+
    rack: str | None = None  # 10+


class ProduceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ProduceResponse"

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: int = 0  # 1+
    node_endpoints: tuple[NodeEndpoint, ...] = ()  # 10+
