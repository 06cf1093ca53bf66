"""UnregisterBrokerRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class UnregisterBrokerRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UnregisterBrokerRequest"

    broker_id: int = 0
