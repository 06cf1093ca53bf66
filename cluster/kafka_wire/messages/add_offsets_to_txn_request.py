"""AddOffsetsToTxnRequest, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AddOffsetsToTxnRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddOffsetsToTxnRequest"

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""
