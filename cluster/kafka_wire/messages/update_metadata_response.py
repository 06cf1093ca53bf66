"""UpdateMetadataResponse, versions 0-8. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class UpdateMetadataResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateMetadataResponse"

    error_code: int = 0
