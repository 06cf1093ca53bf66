"""JoinGroupRequest, versions 0-9. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class JoinGroupRequestProtocol(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "JoinGroupRequest"

    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "JoinGroupRequest"

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1  # 1+
    member_id: str = ""
    group_instance_id: str | None = None  # 5+
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: str | None = None  # 8+
