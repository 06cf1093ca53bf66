"""AlterUserScramCredentialsRequest, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ScramCredentialDeletion(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsRequest"

    name: str = ""
    mechanism: int = 0


class ScramCredentialUpsertion(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsRequest"

    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsRequest"

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()
