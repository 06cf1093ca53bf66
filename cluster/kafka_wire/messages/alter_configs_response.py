"""AlterConfigsResponse, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AlterConfigsResourceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsResponse"

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


class AlterConfigsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsResponse"

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
