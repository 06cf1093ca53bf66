"""What a process answers: one row for each API, which says how, and for whom.

A node looks the row of a request up and does what it says. Source: Kafka ApiKeys, KafkaApis.handle.
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Generic, TypeVar

from msgspec import Struct

Request = TypeVar("Request")


class ApiKind(Enum):
    """What a request is to the cluster."""

    QUERY = "query"
    """Changes nothing."""
    MUTATION = "mutation"
    """Changes something; carried out once under one `x-request-id`."""
    INTER_NODE = "inter-node"
    """Between nodes: an error is a code in the response."""
    LOCAL = "local"
    """About the process itself, which answers whether or not it is active."""


class Callers(Enum):
    """For whom an API is made. Nothing refuses others yet: an authorizer is to read it."""

    ANYONE = "anyone"
    ADMINISTRATORS = "administrators"
    BROKERS = "brokers"
    CONTROLLERS = "controllers"


class Api(Struct, Generic[Request], frozen=True):
    """One API, by the type of its request."""

    request: type[Request]
    kind: ApiKind
    callers: Callers

    @property
    def name(self) -> str:
        """As the method is called in its service."""
        return self.request.__name__.removesuffix("Request")


class DirectApi(Api[Request], Generic[Request], frozen=True):
    """One whose handler is called as the request arrives, without an event loop between. It may raise ApiError."""

    handler: Callable[[Request], Awaitable[object]]
