"""CreateDelegationTokenRequest, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class CreatableRenewers(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateDelegationTokenRequest"

    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateDelegationTokenRequest"

    owner_principal_type: str | None = ""  # 3+
    owner_principal_name: str | None = ""  # 3+
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: int = 0
