"""ListGroupsRequest, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ListGroupsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListGroupsRequest"

    states_filter: tuple[str, ...] = ()  # 4+
    types_filter: tuple[str, ...] = ()  # 5+
