"""DescribeClientQuotasResponse, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class EntityData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasResponse"

    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasResponse"

    key: str = ""
    value: float = 0.0


class EntryData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasResponse"

    entity: tuple[EntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


class DescribeClientQuotasResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: tuple[EntryData, ...] | None = ()
