"""ControlledShutdownRequest, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ControlledShutdownRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ControlledShutdownRequest"

    broker_id: int = 0
    broker_epoch: int = -1  # 2+
