"""ConsumerGroupDescribeRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ConsumerGroupDescribeRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupDescribeRequest"

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False
