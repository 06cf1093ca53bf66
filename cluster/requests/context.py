"""The context of a request."""

from msgspec import Struct


class RequestContext(Struct, frozen=True):
    """The caller of a request and its deadline. `timeout_ms` is None without a deadline."""

    peer: str = ""
    principal: str = "ANONYMOUS"
    timeout_ms: int | None = None
    request_id: str = ""
