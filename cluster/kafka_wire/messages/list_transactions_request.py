"""ListTransactionsRequest, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ListTransactionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListTransactionsRequest"

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1  # 1+
