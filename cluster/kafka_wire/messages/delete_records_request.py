"""DeleteRecordsRequest, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DeleteRecordsPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsRequest"

    partition_index: int = 0
    offset: int = 0


class DeleteRecordsTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsRequest"

    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteRecordsRequest"

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: int = 0
