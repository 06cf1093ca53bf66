"""FindCoordinatorResponse, versions 0-6. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class Coordinator(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FindCoordinatorResponse"

    key: str = ""  # 4+
    node_id: int = 0  # 4+
    host: str = ""  # 4+
    port: int = 0  # 4+
    error_code: int = 0  # 4+
    error_message: str | None = ""  # 4+


class FindCoordinatorResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FindCoordinatorResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0  # 0-3
    error_message: str | None = ""  # 1-3
    node_id: int = 0  # 0-3
    host: str = ""  # 0-3
    port: int = 0  # 0-3
    coordinators: tuple[Coordinator, ...] = ()  # 4+
