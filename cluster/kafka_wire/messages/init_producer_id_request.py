"""InitProducerIdRequest, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class InitProducerIdRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "InitProducerIdRequest"

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # 3+
    producer_epoch: int = -1  # 3+
