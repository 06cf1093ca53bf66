"""What comes with every request."""

from msgspec import Struct


class RequestContext(Struct, frozen=True):
    """What is known of a caller besides the request itself. `timeout_ms` is None without a deadline."""

    peer: str = ""
    principal: str = "ANONYMOUS"
    timeout_ms: int | None = None
    request_id: str = ""
