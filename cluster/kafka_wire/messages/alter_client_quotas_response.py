"""AlterClientQuotasResponse, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class EntityData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasResponse"

    entity_type: str = ""
    entity_name: str | None = ""


class EntryData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasResponse"

    error_code: int = 0
    error_message: str | None = ""
    entity: tuple[EntityData, ...] = ()


class AlterClientQuotasResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasResponse"

    throttle_time_ms: int = 0
    entries: tuple[EntryData, ...] = ()
