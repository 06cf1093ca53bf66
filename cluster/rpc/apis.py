"""The table of APIs of a process: for each, its handler, kind and permitted callers.

A node finds a request's API by its type. Source: Kafka ApiKeys, KafkaApis.handle.
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Generic, TypeVar

from msgspec import Struct

Request = TypeVar("Request")


class ApiKind(Enum):
    """The effect of a request on the cluster."""

    QUERY = "query"
    """Changes nothing."""
    MUTATION = "mutation"
    """Changes the cluster; carried out once per `x-request-id`."""
    INTER_NODE = "inter-node"
    """Between nodes: an error is a code in the response."""
    LOCAL = "local"
    """About the process itself, which responds whether active or not."""


class Callers(Enum):
    """The intended callers of an API. Not enforced yet: there is no authorizer."""

    ANYONE = "anyone"
    ADMINISTRATORS = "administrators"
    BROKERS = "brokers"
    CONTROLLERS = "controllers"


class Api(Struct, Generic[Request], frozen=True):
    """One API, identified by the type of its request."""

    request: type[Request]
    kind: ApiKind
    callers: Callers

    @property
    def name(self) -> str:
        """The name of the method in its service."""
        return self.request.__name__.removesuffix("Request")


class DirectApi(Api[Request], Generic[Request], frozen=True):
    """An API whose handler is called directly, without the controller's event loop. It may raise ApiError."""

    handler: Callable[[Request], Awaitable[object]]
