"""HeartbeatRequest, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class HeartbeatRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "HeartbeatRequest"

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # 3+
