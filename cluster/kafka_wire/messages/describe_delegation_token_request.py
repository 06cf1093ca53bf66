"""DescribeDelegationTokenRequest, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribeDelegationTokenOwner(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeDelegationTokenRequest"

    principal_type: str = ""
    principal_name: str = ""


class DescribeDelegationTokenRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeDelegationTokenRequest"

    owners: tuple[DescribeDelegationTokenOwner, ...] | None = ()
