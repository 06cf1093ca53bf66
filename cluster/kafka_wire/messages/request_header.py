"""RequestHeader, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class RequestHeader(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "RequestHeader"

    request_api_key: int = 0
    request_api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = ""  # 1+
