"""Principals: the names under which access control lists know who asks. Source: Kafka KafkaPrincipal, KIP-140."""

from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError

USER: Final = "User"


class Principal(Struct, frozen=True, order=True):
    """A type, nearly always `User`, and a name. Both are compared exactly, upper and lower case apart."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Whoever has not said who they are."""
EVERY_USER: Final = Principal(USER, "*")
"""In an access control list: every user."""


def parse_principal(text: str) -> Principal:
    """Parse `Type:name`, such as `User:alice`. Raises ConfigError for any other text."""
    kind, separator, name = text.partition(":")
    if not (kind and separator and name):
        raise ConfigError([f"principal {text!r}: is not Type:name, such as User:alice"])
    return Principal(kind, name)


def parse_super_users(text: str) -> frozenset[Principal]:
    """Parse `super.users`: principals with semicolons between them, because names of certificates have commas.

    Raises ConfigError.
    """
    return frozenset(parse_principal(part.strip()) for part in text.split(";") if part.strip())
