"""Requests and responses with their headers: what a frame holds after its size."""

from typing import TypeVar

from msgspec import Struct

from cluster.kafka_wire.apis import api, api_of
from cluster.kafka_wire.codec import decode, decode_prefix, encode
from cluster.kafka_wire.errors import MalformedMessageError
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import connections as wire_connections
from cluster.kafka_wire.messages.api_keys import ApiKey

M = TypeVar("M", bound=Message)


class RequestHeader(Struct, frozen=True):
    """Holds what stands before a request. The version may be one that is not known here."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None = None


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Header and body of a request. Raises as `encode`."""
    of = api_of(type(message))
    header = wire_connections.RequestHeader(
        request_api_key=of.key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return encode(header, of.request_header_version(version)) + encode(message, version)


def decode_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The header of a request, and the position of its body. Raises MalformedMessageError."""
    start, _ = decode_prefix(wire_connections.RequestHeader, 0, frame)
    try:
        key = ApiKey(start.request_api_key)
    except ValueError:
        raise MalformedMessageError(
            "RequestHeader", "request_api_key", f"{start.request_api_key} is not an API served here (at byte 0)"
        ) from None
    version = api(key).request_header_version(start.request_api_version)
    header, end = decode_prefix(wire_connections.RequestHeader, version, frame)
    return RequestHeader(key, header.request_api_version, header.correlation_id, header.client_id), end


def encode_response(message: Message, version: int, correlation_id: int) -> bytes:
    """Header and body of a response. Raises as `encode`."""
    header = wire_connections.ResponseHeader(correlation_id=correlation_id)
    return encode(header, api_of(type(message)).response_header_version(version)) + encode(message, version)


def decode_response(type_: type[M], version: int, frame: bytes) -> tuple[int, M]:
    """Correlation id and body of a response. Raises as `decode`."""
    header_version = api_of(type_).response_header_version(version)
    header, end = decode_prefix(wire_connections.ResponseHeader, header_version, frame)
    return header.correlation_id, decode(type_, version, frame, end)
