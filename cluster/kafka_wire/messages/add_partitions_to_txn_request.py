"""AddPartitionsToTxnRequest, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AddPartitionsToTxnTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddPartitionsToTxnRequest"

    name: str = ""
    partitions: tuple[int, ...] = ()


class AddPartitionsToTxnTransaction(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddPartitionsToTxnRequest"

    transactional_id: str = ""  # 4+
    producer_id: int = 0  # 4+
    producer_epoch: int = 0  # 4+
    verify_only: bool = False  # 4+
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()  # 4+


class AddPartitionsToTxnRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddPartitionsToTxnRequest"

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()  # 4+
    v3_and_below_transactional_id: str = ""  # 0-3
    v3_and_below_producer_id: int = 0  # 0-3
    v3_and_below_producer_epoch: int = 0  # 0-3
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()  # 0-3
