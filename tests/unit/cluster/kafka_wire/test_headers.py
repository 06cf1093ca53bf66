"""Requests and responses with the headers that Kafka puts before them."""

import pytest

from cluster.kafka_wire.apis import api, api_of
from cluster.kafka_wire.codec import decode, encode
from cluster.kafka_wire.errors import MalformedMessageError
from cluster.kafka_wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.brokers import ControlledShutdownRequest
from cluster.kafka_wire.messages.connections import ApiVersionsResponse
from cluster.kafka_wire.messages.control import LeaderAndIsrRequest
from cluster.kafka_wire.messages.topics import CreateTopicsRequest, CreateTopicsResponse


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.API_VERSIONS, 99, 2, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.LEADER_AND_ISR, 3, 1, 0),
        (ApiKey.LEADER_AND_ISR, 4, 2, 1),
        (ApiKey.ALTER_PARTITION, 0, 2, 1),
    ],
)
def test_versions_of_headers(key: ApiKey, version: int, request_header: int, response_header: int) -> None:
    assert api(key).request_header_version(version) == request_header
    assert api(key).response_header_version(version) == response_header


@pytest.mark.parametrize("version", range(api(ApiKey.CREATE_TOPICS).latest_version + 1))
def test_a_request_is_found_behind_its_header(version: int) -> None:
    request = CreateTopicsRequest(timeout_ms=5000)
    frame = encode_request(request, version, 77, "klamm-1001")
    header, body = decode_request_header(frame)
    assert header == RequestHeader(ApiKey.CREATE_TOPICS, version, 77, "klamm-1001")
    assert decode(CreateTopicsRequest, version, frame, body) == request
    response = CreateTopicsResponse(throttle_time_ms=0)
    assert decode_response(CreateTopicsResponse, version, encode_response(response, version, 77)) == (77, response)


def test_bytes_of_headers() -> None:
    request = ControlledShutdownRequest(broker_id=3)
    assert encode_request(request, 0, 5, "unused")[:8] == b"\0\x07\0\0\0\0\0\5"
    assert encode_request(request, 1, 5, "id")[:12] == b"\0\x07\0\1\0\0\0\5\0\2id"
    assert encode_request(request, 3, 5, None)[:11] == b"\0\x07\0\3\0\0\0\5\xff\xff\0"
    assert encode_response(ApiVersionsResponse(), 3, 5)[:6] == b"\0\0\0\5\0\0"


def test_the_header_of_a_version_that_is_not_known_can_be_read() -> None:
    frame = b"\0\x12\x7f\xff\0\0\0\x09\0\1c\0" + b"whatever follows"
    assert decode_request_header(frame) == (RequestHeader(ApiKey.API_VERSIONS, 2**15 - 1, 9, "c"), 12)


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (b"", "RequestHeader v0: request_api_key…correlation_id: the bytes end within it (at byte 0)"),
        (b"\x7f\0\0\0\0\0\0\1", "RequestHeader: request_api_key: 32512 is not an API served here (at byte 0)"),
        (b"\0\3\0\1\0\0\0\1\0\5ab", "RequestHeader v1: client_id: a length of 5 where 2 bytes are left (at byte 8)"),
    ],
)
def test_a_header_that_is_none_is_refused(frame: bytes, what: str) -> None:
    with pytest.raises(MalformedMessageError) as refused:
        decode_request_header(frame)
    assert str(refused.value) == what


def test_the_api_of_a_message() -> None:
    found = api_of(LeaderAndIsrRequest)
    assert (found.key, found.oldest_version, found.latest_version, found.flexible_from) == (
        ApiKey.LEADER_AND_ISR,
        0,
        7,
        4,
    )
    assert found.request_type is LeaderAndIsrRequest
    assert decode(found.response_type, 7, encode(found.response_type(), 7)) == found.response_type()
