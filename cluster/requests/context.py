"""The context of a request, and the interface between a node and the network, which hands it over with the request.

gRPC servicers convert and call `handle`; the simulator calls it directly.
"""

from typing import Any, Protocol

from msgspec import Struct

from cluster.security.identities import Identity


class PeerCertificate(Struct, frozen=True):
    """What a verified certificate of the caller says of it: its distinguished name and the URIs among its names, of
    which `klamm://broker/1` names a node. `fingerprint`: its SHA-256 in hexadecimal digits, at listeners with SASL.
    """

    subject: str
    uris: tuple[str, ...] = ()
    fingerprint: str = ""


class RequestContext(Struct, frozen=True):
    """The caller of a request and its deadline. `timeout_ms` is None without a deadline.

    `client_id`: what a client calls itself, for quotas; nothing verifies it.

    `listener`: the name of the listener that received it; empty for a request of the process itself. `is_kafka_client`:
    whether it came by Kafka's protocol, where some requests wait for something else. `knows_quota_error`: whether its
    version of the request has THROTTLING_QUOTA_EXCEEDED for single topics.

    `certificate`: that of the caller, which TLS has verified; None without TLS, and where the listener demands none.
    Then `principal` is what the caller claims to be, and under TLS ANONYMOUS.

    `identity`: who the caller is, as verified; rights are decided by it alone. `authenticated_until`: on the clock of
    the event loop, when the session of its token ends; None without a token.
    """

    peer: str = ""
    principal: str = "ANONYMOUS"
    timeout_ms: int | None = None
    request_id: str = ""
    listener: str = ""
    is_kafka_client: bool = False
    client_id: str = ""
    knows_quota_error: bool = True
    certificate: PeerCertificate | None = None
    identity: Identity = Identity()
    authenticated_until: float | None = None


class RequestHandler(Protocol):
    """A controller or an agent as a handler of requests."""

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Handle a request of `cluster.requests`; returns its response.

        A request with a streamed response (WatchRequest) returns an async iterator of responses. Raises ApiError if an
        administrative request is refused as a whole.
        """
