"""InitProducerIdResponse, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class InitProducerIdResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "InitProducerIdResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
