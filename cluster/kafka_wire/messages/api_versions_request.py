"""ApiVersionsRequest, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ApiVersionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ApiVersionsRequest"

    client_software_name: str = ""  # 3+
    client_software_version: str = ""  # 3+
