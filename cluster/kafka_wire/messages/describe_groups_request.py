"""DescribeGroupsRequest, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribeGroupsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeGroupsRequest"

    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False  # 3+
