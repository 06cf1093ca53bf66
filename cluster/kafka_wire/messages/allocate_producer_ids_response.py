"""AllocateProducerIdsResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AllocateProducerIdsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AllocateProducerIdsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0
