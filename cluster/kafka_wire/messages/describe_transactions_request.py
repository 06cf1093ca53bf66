"""DescribeTransactionsRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribeTransactionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeTransactionsRequest"

    transactional_ids: tuple[str, ...] = ()
