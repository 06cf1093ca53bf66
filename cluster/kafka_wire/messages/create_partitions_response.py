"""CreatePartitionsResponse, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class CreatePartitionsTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsResponse"

    name: str = ""
    error_code: int = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsResponse"

    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()
