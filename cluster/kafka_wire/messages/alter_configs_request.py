"""AlterConfigsRequest, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AlterableConfig(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsRequest"

    name: str = ""
    value: str | None = ""


class AlterConfigsResource(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsRequest"

    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class AlterConfigsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsRequest"

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False
