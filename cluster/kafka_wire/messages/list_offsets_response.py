"""ListOffsetsResponse, versions 0-9. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ListOffsetsPartitionResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsResponse"

    partition_index: int = 0
    error_code: int = 0
    old_style_offsets: tuple[int, ...] = ()  # 0
    timestamp: int = -1  # 1+
    offset: int = -1  # 1+
    leader_epoch: int = -1  # 4+


class ListOffsetsTopicResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsResponse"

    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsResponse"

    throttle_time_ms: int = 0  # 2+
    topics: tuple[ListOffsetsTopicResponse, ...] = ()
