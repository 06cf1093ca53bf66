"""Requests with which a client proves who it is. Source: Kafka SaslHandshake, SaslAuthenticate; KIP-152, KIP-368."""

from typing import Annotated, Final

from msgspec import Struct

from cluster.model.bounds import BYTES
from cluster.requests.field_types import Int64, String
from cluster.requests.request import RequestFor

AUTH_BYTES_MAX: Final = 16_384
"""The longest message of a mechanism, in bytes: a token is the longest."""


class AuthenticateRequest(RequestFor["AuthenticateResponse"], frozen=True):
    """One message of an exchange. `exchange_id`: that of the response before; empty in the first request."""

    mechanism: String = ""
    exchange_id: String = ""
    auth_bytes: Annotated[bytes, BYTES] = b""

    def __repr__(self) -> str:
        return f"AuthenticateRequest({self.mechanism!r}, (not shown))"


class AuthenticateResponse(Struct, frozen=True):
    """The answer to one message, and after the last one the token that later calls carry."""

    exchange_id: str = ""
    auth_bytes: bytes = b""
    token: str = ""
    session_lifetime_ms: Int64 = 0
    principal: str = ""

    def __repr__(self) -> str:
        return f"AuthenticateResponse({self.principal!r}, (not shown))"
