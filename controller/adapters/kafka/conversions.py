"""What turns a request of Kafka's into one of the controller's, and the response back."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.message import Message
from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.model.errors import ApiError

M = TypeVar("M", bound=Message)


class Conversion(Struct, Generic[M], frozen=True):
    """One API of Kafka's that the controller answers.

    `request`: message -> request of `cluster.requests`; raises ApiError. `response`: the message that it was asked
    with and the controller's response -> message. `refusal`: the response that refuses the whole request.
    `concerns`: whether the controller answers this message; others of the API are passed on to a broker.
    `fitted`: a response and the version that was asked for -> the response without what this version cannot say.
    """

    key: ApiKey
    request: Callable[[M], Any]
    response: Callable[[M, Any], Message]
    refusal: Callable[[M, ApiError], Message]
    concerns: Callable[[M], bool] = lambda _: True
    fitted: Callable[[Any, int], Message] = lambda message, _: message


def topic_id_or_none(topic_id: TopicId) -> TopicId | None:
    return None if topic_id == ZERO_TOPIC_ID else topic_id


def topic_id_or_zero(topic_id: TopicId | None) -> TopicId:
    return ZERO_TOPIC_ID if topic_id is None else topic_id
