"""The base of all generated messages and of their parts; what may stand in for a part."""

from typing import ClassVar

from msgspec import Struct


class Message(Struct, frozen=True):
    """A message of Kafka's protocol, or a struct within one. Its fields are those of all versions."""

    SCHEMA: ClassVar[str]
    """The message's name in `schemas/`; of a part, that of the message it belongs to."""


class EncodedPart(Struct, frozen=True):
    """Stands in an array in place of a struct: its bytes, already encoded for the version of the message."""

    data: bytes
