"""Decoding of znode contents, and limits of their numbers.

Numbers between nodes have 32 bits; one that does not fit is rejected here, when its znode is read.
"""

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from cluster.broker import BrokerId
from cluster.errors import MalformedZnodeError

_T = TypeVar("_T")
INT32_MAX: Final = 2**31 - 1
Int32 = Annotated[int, Meta(ge=-(2**31), le=INT32_MAX)]
ReplicaId = Annotated[BrokerId, Meta(ge=0, le=INT32_MAX)]
LeaderId = Annotated[BrokerId, Meta(ge=-1, le=INT32_MAX)]
Port = Annotated[int, Meta(ge=-1, le=65_535)]


def decode(decoder: msgspec.json.Decoder[_T], path: str, data: bytes) -> _T:
    """Decode a znode's content. Raises MalformedZnodeError; callers log it and skip the znode."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedZnodeError(path, data, str(error)) from None
