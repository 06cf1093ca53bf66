"""ListOffsetsRequest, versions 0-9. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ListOffsetsPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsRequest"

    partition_index: int = 0
    current_leader_epoch: int = -1  # 4+
    timestamp: int = 0
    max_num_offsets: int = 1  # 0


class ListOffsetsTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsRequest"

    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListOffsetsRequest"

    replica_id: int = 0
    isolation_level: int = 0  # 2+
    topics: tuple[ListOffsetsTopic, ...] = ()
