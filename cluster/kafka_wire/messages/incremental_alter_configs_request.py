"""IncrementalAlterConfigsRequest, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AlterableConfig(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsRequest"

    name: str = ""
    config_operation: int = 0
    value: str | None = ""


class AlterConfigsResource(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsRequest"

    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsRequest"

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False
