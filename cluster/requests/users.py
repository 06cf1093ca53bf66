"""SCRAM credentials of users. Source: KIP-554, RFC 5802."""

from enum import IntEnum
from typing import Annotated

from msgspec import Struct

from cluster.model import bounds
from cluster.model.annotations import KafkaName
from cluster.model.errors import ErrorCode
from cluster.requests.field_types import ClientItems, Int32
from cluster.requests.request import RequestFor


class ScramMechanism(IntEnum):
    """Kafka's numbers (ScramMechanism)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def key(self) -> str:
        """Its name in SASL, which is the config under which a user has the credential."""
        return f"SCRAM-{self.name.replace('_', '-')}"


class ScramCredentialDeletion(Struct, frozen=True):
    user: Annotated[str, bounds.USER_NAME, KafkaName("name")]
    mechanism: Int32


class ScramCredentialUpsertion(Struct, frozen=True):
    """Create or replace a credential. `salted_password`: `Hi(password, salt, iterations)`; never logged."""

    user: Annotated[str, bounds.USER_NAME, KafkaName("name")]
    mechanism: Int32
    iterations: Int32
    salt: Annotated[bytes, bounds.BYTES]
    salted_password: Annotated[bytes, bounds.BYTES]

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion(user={self.user!r}, mechanism={self.mechanism}, (not shown))"


ScramCredentialAlteration = ScramCredentialDeletion | ScramCredentialUpsertion


class AlterUserScramCredentialsRequest(RequestFor["AlterUserScramCredentialsResponse"], frozen=True):
    """Each user is changed completely or not at all."""

    deletions: ClientItems[ScramCredentialDeletion] = ()
    upsertions: ClientItems[ScramCredentialUpsertion] = ()

    @property
    def alterations(self) -> tuple[ScramCredentialAlteration, ...]:
        return (*self.deletions, *self.upsertions)

    @property
    def by_user(self) -> dict[str, list[ScramCredentialAlteration]]:
        """Group the alterations by the user that they name."""
        users: dict[str, list[ScramCredentialAlteration]] = {}
        for item in self.alterations:
            users.setdefault(item.user, []).append(item)
        return users


class AlterUserScramCredentialsResult(Struct, frozen=True):
    user: str
    error_code: ErrorCode
    error_message: str | None = None


class AlterUserScramCredentialsResponse(Struct, frozen=True):
    """One result for each user."""

    results: tuple[AlterUserScramCredentialsResult, ...]


class DescribeUserScramCredentialsRequest(RequestFor["DescribeUserScramCredentialsResponse"], frozen=True):
    """`users` empty: all that have a credential."""

    users: ClientItems[Annotated[str, bounds.USER_NAME]] = ()


class ScramCredentialInfo(Struct, frozen=True):
    mechanism: int
    iterations: int


class DescribeUserScramCredentialsResult(Struct, frozen=True):
    """RESOURCE_NOT_FOUND for a user without credentials."""

    user: str
    error_code: ErrorCode
    error_message: str | None = None
    credential_infos: tuple[ScramCredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(Struct, frozen=True):
    """One result for each user."""

    results: tuple[DescribeUserScramCredentialsResult, ...]
