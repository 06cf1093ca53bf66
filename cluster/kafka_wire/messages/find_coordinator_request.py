"""FindCoordinatorRequest, versions 0-6. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class FindCoordinatorRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FindCoordinatorRequest"

    key: str = ""  # 0-3
    key_type: int = 0  # 1+
    coordinator_keys: tuple[str, ...] = ()  # 4+
