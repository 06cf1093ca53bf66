"""DescribeUserScramCredentialsRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class UserName(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeUserScramCredentialsRequest"

    name: str = ""


class DescribeUserScramCredentialsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeUserScramCredentialsRequest"

    users: tuple[UserName, ...] | None = ()
