"""DescribeProducersResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ProducerState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeProducersResponse"

    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


class PartitionResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeProducersResponse"

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class TopicResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeProducersResponse"

    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


class DescribeProducersResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeProducersResponse"

    throttle_time_ms: int = 0
    topics: tuple[TopicResponse, ...] = ()
