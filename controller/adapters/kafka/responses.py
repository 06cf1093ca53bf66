"""Frames of responses: those of sessions at Kafka listeners, and refusals that say no more than an error."""

from typing import Any, Final

import structlog

from cluster.kafka_wire.apis import KafkaApi
from cluster.kafka_wire.headers import RequestHeader, encode_response
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.schema import has_error_code
from cluster.model.errors import ClusterError, ErrorCode
from controller.adapters.kafka.conversions import AnsweredApi
from controller.adapters.kafka.served_connection import RefusedConnectionError

_log = structlog.stdlib.get_logger()
LARGE_ELEMENTS: Final = 1_000
"""A response with more of them is encoded beside the event loop."""
_ERROR_TEXT_MAX: Final = 4_000


def encoded_response(message: Message, header: RequestHeader, answered: AnsweredApi[Any] | None = None) -> bytes:
    """Encode the response, without what its version cannot say. Raises ClusterError."""
    fitted = message if answered is None else answered.fitted(message, header.api_version)
    try:
        return encode_response(fitted, header.api_version, header.correlation_id)
    except ClusterError:
        pass
    try:
        # What refuses a long value may quote it, and be longer than a text may be.
        return encode_response(_shortened(fitted), header.api_version, header.correlation_id)
    except ClusterError:
        # Of a version that is served: the response is wrong, not the request.
        _log.exception("A response has no encoding", message=type(message).__name__, version=header.api_version)
        raise


def _shortened(value: Any) -> Any:
    """The same with the beginning only of long error messages."""
    if isinstance(value, tuple):
        return tuple(map(_shortened, value))
    if not isinstance(value, Message):
        return value
    fields = {name: _shortened(getattr(value, name)) for name in value.__struct_fields__}
    text = fields.get("error_message")
    if isinstance(text, str) and len(text) > _ERROR_TEXT_MAX:
        fields["error_message"] = f"{text[:_ERROR_TEXT_MAX]}…"
    return type(value)(**fields)


def refused_response(called: KafkaApi, header: RequestHeader, code: ErrorCode) -> bytes:
    """Make a response that says no more than the error, of the nearest version that is known.

    Raises RefusedConnectionError if it has no place for an error of the whole request.
    """
    version = min(max(header.api_version, called.oldest_version), called.latest_version)
    if not has_error_code(f"{called.name}Response", version):
        raise RefusedConnectionError(f"{called.name} {header.api_version}: {code.name}")
    response = called.response_type(**{"error_code": code})
    return encode_response(response, version, header.correlation_id)


def is_large(message: Message) -> bool:
    """Whether the lists of a message, or the lists in them, have many elements."""
    elements = 0
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, tuple):
            elements += len(value)
            for item in value if elements <= LARGE_ELEMENTS else ():
                fields = getattr(item, "__struct_fields__", ())
                elements += sum(len(v) for f in fields if isinstance(v := getattr(item, f), tuple))
    return elements > LARGE_ELEMENTS
