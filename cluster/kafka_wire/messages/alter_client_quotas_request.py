"""AlterClientQuotasRequest, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class EntityData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasRequest"

    entity_type: str = ""
    entity_name: str | None = ""


class OpData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasRequest"

    key: str = ""
    value: float = 0.0
    remove: bool = False


class EntryData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasRequest"

    entity: tuple[EntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


class AlterClientQuotasRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasRequest"

    entries: tuple[EntryData, ...] = ()
    validate_only: bool = False
