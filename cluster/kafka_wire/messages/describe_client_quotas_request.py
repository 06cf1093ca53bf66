"""DescribeClientQuotasRequest, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ComponentData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasRequest"

    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""


class DescribeClientQuotasRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasRequest"

    components: tuple[ComponentData, ...] = ()
    strict: bool = False
