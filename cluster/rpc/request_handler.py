"""The interface between a node and the network: every inbound request goes through `handle`.

gRPC servicers convert and call it; the simulator calls it directly.
"""

from typing import Any, Protocol

from cluster.requests.context import RequestContext


class RequestHandler(Protocol):
    """A controller or an agent as a handler of requests."""

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Handle a request of `cluster.requests`; returns its response.

        A request with a streamed response (WatchRequest) returns an async iterator of responses. Raises ApiError if an
        administrative request is refused as a whole.
        """
        ...
