"""ResponseHeader, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ResponseHeader(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ResponseHeader"

    correlation_id: int = 0
