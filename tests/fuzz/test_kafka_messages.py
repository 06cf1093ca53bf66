"""Bytes that are nearly messages of Kafka's protocol, and streams that are nearly frames of it."""

import asyncio
from contextlib import suppress
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from cluster.kafka_wire.apis import api, message_type
from cluster.kafka_wire.codec import decode, encode
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.errors import MalformedMessageError, UnsupportedVersionError
from cluster.kafka_wire.frames import FrameError, FrameSplitter, with_size
from cluster.kafka_wire.headers import decode_request_header, encode_request, encode_response
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.connections import ApiVersionsResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import PeerUnreachableError
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.damage import damaged
from tests.fuzz.messages import Draw
from tests.kafka.frames import RawClient, Scripted, raw_client, raw_server, serving
from tests.kafka.message_strategies import messages
from tests.kafka.messages import EVERY_VERSION, has_messages
from tests.timeouts import TIMEOUT_S

_FRAME_MAX: Final = 100_000


@st.composite
def encoded(draw: Draw) -> tuple[type[Message], int, bytes]:
    name, version = draw(st.sampled_from(EVERY_VERSION))
    return message_type(name), version, draw(damaged(encode(draw(messages(name, version)), version)))


@st.composite
def requests(draw: Draw) -> bytes:
    """Header and body of a request, mostly damaged."""
    name, version = draw(st.sampled_from([known for known in EVERY_VERSION if known[0].endswith("Request")]))
    client_id = draw(st.sampled_from((None, "", "a client")))
    frame = encode_request(draw(messages(name, version)), version, draw(st.integers(0, 2**31 - 1)), client_id)
    return draw(damaged(frame)) if draw(st.integers(0, 3)) else frame


@st.composite
def streams(draw: Draw) -> bytes:
    """Frames one after the other, mostly with something wrong."""
    stream = b"".join(with_size(frame) for frame in draw(st.lists(requests(), min_size=1, max_size=4)))
    return draw(damaged(stream)) if draw(st.integers(0, 2)) else stream


@fuzz(examples=300)
@given(encoded())
def test_kafka_messages(sent: tuple[type[Message], int, bytes]) -> None:
    """What can be decoded can be encoded, and is the same again; the rest is refused by name."""
    count_case("kafka messages")
    type_, version, data = sent
    refused = ""
    try:
        message = decode(type_, version, data)
    except MalformedMessageError as error:
        refused = str(error)
    if refused:
        assert refused.startswith(f"{type_.__name__} v{version}: ")
        assert len(refused) < 1000
        return
    again = encode(message, version)
    # As bytes, because a number may be NaN.
    assert encode(decode(type_, version, again), version) == again


@fuzz(examples=100)
@given(requests())
def test_kafka_requests(frame: bytes) -> None:
    """Headers and bodies, as a listener decodes them."""
    count_case("kafka requests")
    refused = ""
    try:
        header, body = decode_request_header(frame)
        called = api(header.api_key)
        if not has_messages(called):
            return
        request = decode(called.request_type, header.api_version, frame, body)
    except (MalformedMessageError, UnsupportedVersionError) as error:
        refused = str(error)
    if refused:
        assert len(refused) < 1000
        return
    again = encode_request(request, header.api_version, header.correlation_id, header.client_id)
    assert decode_request_header(again)[0].api_key is header.api_key


@fuzz(examples=100)
@given(streams(), st.data())
def test_kafka_frames(stream: bytes, data: st.DataObject) -> None:
    """However a stream is cut into pieces, the frames in it are the same, and so is the end of them."""
    count_case("kafka frames")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert split(pieces) == split([stream])


def split(pieces: list[bytes]) -> tuple[list[bytes], str]:
    """The frames before the first that is broken, and why that is."""
    splitter, frames = FrameSplitter(_FRAME_MAX), list[bytes]()
    try:
        for piece in pieces:
            frames.extend(splitter.feed(piece))
    except FrameError as error:
        return frames, str(error)
    return frames, ""


@fuzz(examples=30)
@given(st.lists(streams() | st.binary(max_size=200), min_size=1, max_size=3))
def test_streams_at_a_kafka_listener(sent: list[bytes]) -> None:
    """The listener closes what is garbage, and still serves others; the loop meets no exception."""
    count_case("streams at a kafka listener")
    asyncio.run(_serve_all(sent))


async def _serve_all(sent: list[bytes]) -> None:
    uncaught: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    async with asyncio.timeout(TIMEOUT_S), serving(Scripted(_decoded_answer)) as (_, endpoint):
        for stream in sent:
            async with raw_client(endpoint) as client:
                client.writer.write(stream)
                client.writer.write_eof()
                await client.is_closed()
        async with raw_client(endpoint) as client:
            client.send(encode_request(message_type("ApiVersionsRequest")(), 0, 7, "another"))
            assert (await client.frame())[:4] == b"\0\0\0\7"
    assert uncaught == []


async def _decoded_answer(frame: bytes) -> bytes:
    header, body = decode_request_header(frame)
    decode(api(header.api_key).request_type, header.api_version, frame, body)
    return encode_response(ApiVersionsResponse(), 0, header.correlation_id)


@fuzz(examples=30)
@given(st.lists(st.binary(max_size=30), max_size=3), st.data())
def test_answers_of_a_kafka_broker(answers: list[bytes], data: st.DataObject) -> None:
    """A broker may answer anything: the call fails or has an answer, and no exception but its own."""
    count_case("answers of a kafka broker")
    frames = b"".join(with_size(b"\0\0\0\0" + answer) for answer in answers)
    asyncio.run(_call(data.draw(damaged(frames)) if data.draw(st.booleans()) else frames))


async def _call(answer: bytes) -> None:
    async def serve(client: RawClient) -> None:
        await client.frame()
        client.writer.write(answer)

    uncaught: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    async with asyncio.timeout(TIMEOUT_S), raw_server(serve) as endpoint:
        await _call_at(endpoint)
    assert uncaught == []


async def _call_at(endpoint: Endpoint) -> None:
    connection = await KafkaConnection.open(endpoint, client_id="klamm", timeout_s=TIMEOUT_S, response_bytes_max=1000)
    request = message_type("MetadataRequest")()
    with suppress(PeerUnreachableError):
        await connection.call(request, 9, message_type("MetadataResponse"), timeout_s=TIMEOUT_S)
    connection.close()
