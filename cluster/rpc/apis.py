"""Describes an API: its request, handler and kind. Each process has a table of them.

A node finds a request's API by its type; `cluster.security.operations` says who may call it. Source: Kafka ApiKeys,
KafkaApis.handle.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.listeners import EXTERNAL_LISTENER, ListenerNames
from cluster.requests.context import RequestContext

Request = TypeVar("Request")


class ApiKind(Enum):
    """Says what effect a request has on the cluster."""

    QUERY = "query"
    """Changes nothing."""
    MUTATION = "mutation"
    """Changes the cluster; carried out once for each `x-request-id`."""
    INTER_NODE = "inter-node"
    """Passes between controllers and brokers, at the control listener only; an error is a code in the response."""
    LOCAL = "local"
    """Concerns the process itself, which answers whether it is active or not."""


class Api(Struct, Generic[Request], frozen=True):
    """Describes one API, identified by the type of its request."""

    request: type[Request]
    kind: ApiKind

    @property
    def name(self) -> str:
        """The name of the method in its service."""
        return self.request.__name__.removesuffix("Request")


def check_listener(api: Api[Any], context: RequestContext, names: ListenerNames, own: Sequence[Endpoint]) -> None:
    """Raise ApiError, which names the right listener, if the request arrived at a wrong listener of the process.

    `own`: the endpoints of the process. A request that the process sends to itself has no listener.
    """
    is_control = api.kind is ApiKind.INTER_NODE
    right = names.control if is_control else names.client
    if context.listener in ("", right) or (context.listener == EXTERNAL_LISTENER and not is_control):
        return
    where = next(endpoint.address for endpoint in own if endpoint.listener == right)
    raise ApiError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"{api.name} is answered at the listener {right} ({where}), not at {context.listener}",
    )


class DirectApi(Api[Request], Generic[Request], frozen=True):
    """Describes an API whose handler is called directly, not through the event loop; it may raise ApiError."""

    handler: Callable[[Request], Awaitable[object]]
