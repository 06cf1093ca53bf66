"""The base of all requests, which says what answers them."""

from typing import Generic, TypeVar

from msgspec import Struct

Response = TypeVar("Response", bound=Struct)
_Response_co = TypeVar("_Response_co", bound=Struct, covariant=True)


class RequestFor(Struct, Generic[_Response_co], frozen=True):
    """A request that is answered by a response of this type, or a stream of them."""
