"""ListTransactionsResponse, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class TransactionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListTransactionsResponse"

    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


class ListTransactionsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListTransactionsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()
