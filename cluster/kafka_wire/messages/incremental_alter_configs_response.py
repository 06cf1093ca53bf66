"""IncrementalAlterConfigsResponse, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AlterConfigsResourceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsResponse"

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


class IncrementalAlterConfigsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsResponse"

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
