"""EnvelopeRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class EnvelopeRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "EnvelopeRequest"

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""
