"""CreateAclsResponse, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AclCreationResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateAclsResponse"

    error_code: int = 0
    error_message: str | None = ""


class CreateAclsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateAclsResponse"

    throttle_time_ms: int = 0
    results: tuple[AclCreationResult, ...] = ()
