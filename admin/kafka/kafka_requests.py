"""Converts the requests of klamm's clients to requests of Kafka's protocol, and the answers to klamm's own.

Fields that the version of a broker lacks have their defaults, so that one message serves every version.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.kafka_wire.apis import message_type
from cluster.kafka_wire.conversion import convert
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import data as wire_data
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests import data
from cluster.requests.elections import ShutdownRequest
from cluster.requests.log_dirs import AlterReplicaLogDirsRequest, OnlineLogDirRequest

RESPONSES: Final[Mapping[type[Struct], type[Struct]]] = {
    data.MetadataRequest: data.MetadataResponse,
    data.ListOffsetsRequest: data.ListOffsetsResponse,
    data.DeleteRecordsRequest: data.DeleteRecordsResponse,
}
"""The requests that brokers of Apache Kafka have too, by the same names, and the type of the response to each.

A dry run of a deletion is not among them (`admin.kafka.kafka_dry_runs`).
"""
HOW_TO_STOP: Final = (
    "a broker of Apache Kafka is stopped by SIGTERM: run kafka-server-stop.sh on its host, or stop its service there; "
    "with controlled.shutdown.enable, the default, it first asks the controller to move its leaderships away"
)
_INSTEAD: Final[Mapping[type[Struct], str]] = {
    ShutdownRequest: HOW_TO_STOP,
    AlterReplicaLogDirsRequest: (
        "replicas of Apache Kafka's brokers are moved between log directories by kafka-reassign-partitions.sh"
    ),
    OnlineLogDirRequest: "a broker of Apache Kafka takes a failed log directory back when it is restarted",
}


def refusal(address: str, request: Struct) -> ApiError:
    """Explain why a request is not sent to a broker of Apache Kafka."""
    name = type(request).__name__.removesuffix("Request")
    why = _INSTEAD.get(type(request), f"brokers of Apache Kafka, such as that at {address}, have no {name}")
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, why)


def message_of(request: Struct) -> Message:
    """Convert a request to a message."""
    if isinstance(request, data.MetadataRequest):
        topics = request.topics
        named = None if topics is None else tuple(wire_data.MetadataRequestTopic(name=name) for name in topics)
        return wire_data.MetadataRequest(topics=named, allow_auto_topic_creation=False)
    return convert(request, message_type(type(request).__name__))


def answer_type(request: Struct) -> type[Message]:
    """The type of the message that answers the request."""
    return message_type(RESPONSES[type(request)].__name__)


def response_of(request: Struct, answer: Message) -> Any:
    """Convert the answer to a request to klamm's types."""
    response = convert(answer, RESPONSES[type(request)])
    if not (isinstance(response, data.DeleteRecordsResponse) and isinstance(answer, wire_data.DeleteRecordsResponse)):
        return response
    numbers = (partition.error_code for topic in answer.topics for partition in topic.partitions)
    pairs = zip(response.partitions, numbers, strict=True)
    return data.DeleteRecordsResponse(tuple(replace(r, error_message=_why(r.error_code, n)) for r, n in pairs))


def _why(code: ErrorCode, number: int) -> str:
    """The meaning that Kafka gives to an error code that has no name in klamm; "" for the other codes."""
    return f"error {number} of Kafka's protocol" if code is ErrorCode.UNKNOWN_SERVER_ERROR and number != code else ""
