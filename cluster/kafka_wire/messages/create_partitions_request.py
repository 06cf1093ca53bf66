"""CreatePartitionsRequest, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class CreatePartitionsAssignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsRequest"

    broker_ids: tuple[int, ...] = ()


class CreatePartitionsTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsRequest"

    name: str = ""
    count: int = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = ()


class CreatePartitionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreatePartitionsRequest"

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: int = 0
    validate_only: bool = False
