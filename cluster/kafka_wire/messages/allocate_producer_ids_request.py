"""AllocateProducerIdsRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AllocateProducerIdsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AllocateProducerIdsRequest"

    broker_id: int = 0
    broker_epoch: int = -1
