"""AlterUserScramCredentialsResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AlterUserScramCredentialsResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsResponse"

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""


class AlterUserScramCredentialsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsResponse"

    throttle_time_ms: int = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()
