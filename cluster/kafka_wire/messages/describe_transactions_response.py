"""DescribeTransactionsResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class TopicData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTransactionsResponse"

    topic: str = ""
    partitions: tuple[int, ...] = ()


class TransactionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTransactionsResponse"

    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: tuple[TopicData, ...] = ()


class DescribeTransactionsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTransactionsResponse"

    throttle_time_ms: int = 0
    transaction_states: tuple[TransactionState, ...] = ()
