"""Decoding of znode contents within the bounds of `cluster.model.bounds`.

What is beyond them, such as a number that does not fit into a request, is rejected here, when its znode is read.
"""

from collections.abc import Collection
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from cluster.model import bounds
from cluster.model.bounds import Bound, Count, Number, why_not
from cluster.model.broker import BrokerId
from cluster.model.errors import DECODE_ERRORS, MalformedZnodeError

_T = TypeVar("_T")


def within(bound: Number) -> Meta:
    """The constraint of a field of a znode."""
    return Meta(ge=bound.minimum, le=bound.maximum)


INT32_MAX: Final = bounds.INT32_MAX
Int32 = Annotated[int, within(bounds.INT32)]
ReplicaId = Annotated[BrokerId, within(bounds.BROKER_ID)]
LeaderId = Annotated[BrokerId, within(bounds.BROKER_ID_OR_NONE)]
Port = Annotated[int, within(bounds.PORT)]


def decode(decoder: msgspec.json.Decoder[_T], path: str, data: bytes) -> _T:
    """Decode a znode's content. Raises MalformedZnodeError; callers log it and skip the znode."""
    try:
        return decoder.decode(data)
    except DECODE_ERRORS as error:
        raise MalformedZnodeError(path, data, str(error)) from None


def require(path: str, data: bytes, bound: Bound, *values: object) -> None:
    """Raise MalformedZnodeError that names the first value that the bound does not accept."""
    for value in values:
        if not bound.accepts(value):
            raise MalformedZnodeError(path, data, why_not(bound, value))


def require_count(path: str, data: bytes, count: Count, items: Collection[object]) -> None:
    """Raise MalformedZnodeError if there are too many items, or one of them twice where that is not allowed."""
    if not count.accepts(items):
        raise MalformedZnodeError(path, data, why_not(count, items if count.distinct else f"{len(items)} items"))
