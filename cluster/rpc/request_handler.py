"""The seam between a node and the wire: every inbound request goes through one `handle`.

Servicers convert and call it; the simulator calls it directly.
"""

from typing import Any, Protocol

from cluster.requests.context import RequestContext


class RequestHandler(Protocol):
    """A controller or an agent, seen from the wire."""

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Answer one request of `cluster.requests` with its response type.

        A request with a streamed answer (WatchRequest) is answered with an async iterator of responses.
        Raises ApiError when an administrative request is refused as a whole.
        """
        ...
