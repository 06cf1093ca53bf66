"""Encode and decode messages of Kafka's protocol, in any of their versions."""

from typing import Any, Final, TypeVar, cast

from cluster.kafka_wire.compiled import (
    DECODE_ERRORS,
    ENCODE_ERRORS,
    compiled_decoder,
    compiled_encoder,
    decode_failure,
    encode_failure,
)
from cluster.kafka_wire.errors import MalformedMessageError
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.primitives import ElementsLeft

M = TypeVar("M", bound=Message)

ELEMENTS_MAX: Final = 2_000_000
"""Metadata of 100,000 partitions with three replicas has about a million."""


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message, or of a part of one. Raises MalformedMessageError, UnsupportedVersionError.

    A field that the version lacks must have its default, unless Kafka calls it ignorable.
    """
    compiled = compiled_encoder(message.SCHEMA, version)
    parts: list[bytes] = []
    try:
        compiled.functions[type(message).__name__](message, parts.append)
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise encode_failure(compiled, error) from error


def decode(type_: type[M], version: int, data: bytes, offset: int = 0, *, elements_max: int = ELEMENTS_MAX) -> M:
    """The message whose bytes begin at `offset` and end with `data`.

    `elements_max`: of all its arrays together. Fields that the version lacks have their defaults; tagged fields that
    are not known are skipped. Raises MalformedMessageError, UnsupportedVersionError.
    """
    message, end = decode_prefix(type_, version, data, offset, elements_max=elements_max)
    if end != len(data):
        label = compiled_decoder(type_.SCHEMA, version).label
        raise MalformedMessageError(label, "", f"{len(data) - end} bytes are left over (at byte {end})")
    return message


def decode_prefix(
    type_: type[M], version: int, data: bytes, offset: int = 0, *, elements_max: int = ELEMENTS_MAX
) -> tuple[M, int]:
    """The message whose bytes begin at `offset`, and the position after it. Otherwise as `decode`."""
    compiled = compiled_decoder(type_.SCHEMA, version)
    try:
        found: Any = compiled.functions[type_.__name__](data, offset, ElementsLeft(elements_max))
    except DECODE_ERRORS as error:
        raise decode_failure(compiled, error) from error
    return cast(tuple[M, int], found)
