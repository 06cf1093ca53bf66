"""What turns a request of Kafka's into one of the controller's, and the response back.

Both are derived from the types (`cluster.kafka_wire.conversion`); what an API knows besides is here and beside its row.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from cluster.kafka_wire.apis import api
from cluster.kafka_wire.conversion import convert
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.errors import ApiError

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)


class AnsweredApi(Struct, Generic[M], frozen=True):
    """One Kafka API that the controller answers. `asks`: the type of the controller's request.

    `refuse`: the response that refuses the whole request; without it, the error of the whole response says so.
    `concerns`: whether the controller answers this message; others of the API are passed on to a broker.
    `request`, `response`: where something is not derived. `request` may raise ApiError; `response` has the message that
    it was asked with and the controller's response.
    `fitted`: a response and the version that was asked for -> the response without what this version cannot say.
    """

    key: ApiKey
    asks: type[Struct]
    refuse: Callable[[M, ApiError], Message] | None = None
    concerns: Callable[[M], bool] = lambda _: True
    request: Callable[[M], Any] | None = None
    response: Callable[[M, Any], Message] | None = None
    fitted: Callable[[Any, int], Message] = lambda message, _: message

    def request_of(self, message: M) -> Any:
        """The controller's request. Raises ApiError."""
        return convert(message, self.asks) if self.request is None else self.request(message)

    def response_to(self, message: M, response: Any) -> Message:
        """The message that answers with the controller's response."""
        if self.response is None:
            return convert(response, api(self.key).response_type)
        return self.response(message, response)

    def refusal(self, message: M, error: ApiError) -> Message:
        """The message that refuses the whole request."""
        if self.refuse is not None:
            return self.refuse(message, error)
        response = api(self.key).response_type
        text = {"error_message": error.message} if "error_message" in response.__struct_fields__ else {}
        return response(**{"error_code": error.code, **text})


def each_refused(result: type[R], parts: Iterable[Struct], error: ApiError, *named: str) -> tuple[R, ...]:
    """A result with the error for each part of a request. `named`: the fields that it takes from the part."""
    said = {"error_code": error.code, "error_message": error.message}
    return tuple(result(**said, **{name: getattr(part, name) for name in named}) for part in parts)
