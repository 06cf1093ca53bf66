"""Connections to brokers: order, timeouts, and brokers that answer what they should not."""

import asyncio

import pytest

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.errors import UnsupportedVersionError
from cluster.kafka_wire.headers import decode_request_header, encode_response
from cluster.kafka_wire.messages.brokers import ControlledShutdownRequest
from cluster.kafka_wire.messages.connections import HeartbeatRequest, HeartbeatResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import PeerNotConnectedError, PeerUnreachableError, UnresolvableHostError
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings
from tests.kafka.frames import HOST, RawClient, Scripted, raw_server, serving, until
from tests.processes.certificates import make_certificates
from tests.timeouts import TIMEOUT_S
from tests.unit.conftest import Run

REQUEST = HeartbeatRequest(group_id="g", generation_id=7)


async def connected(endpoint: Endpoint, **options: int) -> KafkaConnection:
    return await KafkaConnection.open(endpoint, client_id="klamm", timeout_s=TIMEOUT_S, **options)


async def answering(frame: bytes) -> bytes:
    header, _ = decode_request_header(frame)
    return encode_response(HeartbeatResponse(error_code=27), header.api_version, header.correlation_id)


def test_a_call_and_its_answer(run: Run) -> None:
    async def scenario() -> None:
        handler = Scripted(answering)
        async with serving(handler) as (_, endpoint):
            connection = await connected(endpoint)
            for version in range(5):
                answer = await connection.call(REQUEST, version, HeartbeatResponse, timeout_s=TIMEOUT_S)
                assert answer == HeartbeatResponse(error_code=27)
            assert [decode_request_header(frame)[0].correlation_id for frame in handler.asked] == [*range(5)]
            assert decode_request_header(handler.asked[0])[0].client_id == "klamm"
            connection.close()

    run(scenario())


def test_overlapping_calls_are_sent_and_answered_in_their_order(run: Run) -> None:
    async def scenario() -> None:
        handler = Scripted(answering)
        async with serving(handler) as (_, endpoint):
            connection = await connected(endpoint)
            frames = [bytes.fromhex("000c0004") + number.to_bytes(4, "big") + b"\xff\xff\0" for number in range(50)]
            answers = await asyncio.gather(*(connection.call_raw(frame, timeout_s=TIMEOUT_S) for frame in frames))
            assert [answer[:4] for answer in answers] == [frame[4:8] for frame in frames]
            assert handler.asked == frames
            connection.close()

    run(scenario())


def test_an_answer_whose_caller_gave_up_is_dropped(run: Run) -> None:
    may_answer = asyncio.Event()

    async def answer(frame: bytes) -> bytes:
        await may_answer.wait()
        return await answering(frame)

    async def scenario() -> None:
        handler = Scripted(answer)
        async with serving(handler) as (_, endpoint):
            connection = await connected(endpoint)
            async with asyncio.TaskGroup() as group:
                call = group.create_task(connection.call(REQUEST, 0, HeartbeatResponse, timeout_s=TIMEOUT_S))
                await until(lambda: bool(handler.asked))
                call.cancel()
            may_answer.set()
            assert (await connection.call(REQUEST, 0, HeartbeatResponse, timeout_s=TIMEOUT_S)).error_code == 27
            connection.close()

    run(scenario())


def test_what_cannot_be_encoded_is_not_sent_and_costs_nothing(run: Run) -> None:
    async def scenario() -> None:
        async with serving(Scripted(answering)) as (_, endpoint):
            connection = await connected(endpoint)
            with pytest.raises(UnsupportedVersionError):
                await connection.call(REQUEST, 99, HeartbeatResponse, timeout_s=TIMEOUT_S)
            assert (await connection.call(REQUEST, 0, HeartbeatResponse, timeout_s=TIMEOUT_S)).error_code == 27
            connection.close()

    run(scenario())


def test_without_an_answer_in_time_the_connection_is_closed_for_all_calls(run: Run) -> None:
    async def never(_frame: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def scenario() -> None:
        async with serving(Scripted(never)) as (_, endpoint):
            connection = await connected(endpoint)
            timeouts_s = (0.05, TIMEOUT_S)
            calls = [connection.call(REQUEST, 0, HeartbeatResponse, timeout_s=timeout_s) for timeout_s in timeouts_s]
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, PeerUnreachableError)
                assert not isinstance(result, PeerNotConnectedError)
                assert str(result) == f"{endpoint.address}: no answer within 0.05 s"
            assert not connection.is_open
            with pytest.raises(PeerNotConnectedError, match=r"no answer within 0\.05 s"):
                await connection.call(REQUEST, 0, HeartbeatResponse, timeout_s=TIMEOUT_S)

    run(scenario())


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ("00000004 00000009", "an answer with correlation id 00000009 where 00000000 is next"),
        ("00000002 0000", "an answer with correlation id 0000 where 00000000 is next"),
        ("00000005 00000000 01", "HeartbeatResponse v0: error_code: the bytes end within it (at byte 4)"),
        ("00000007 00000000 000000", "HeartbeatResponse v0: 1 bytes are left over (at byte 6)"),
        ("ffffffff", "a frame of -1 bytes; at most 1000 are taken"),
        ("000003e9", "a frame of 1001 bytes; at most 1000 are taken"),
        ("48545450 2f312e31", "a frame of 1213486160 bytes"),
        ("", "the other side closed the connection"),
        ("00000006 0000", "the other side closed the connection"),
    ],
)
def test_what_is_no_answer_closes_the_connection(run: Run, answer: str, what: str) -> None:
    async def misbehave(client: RawClient) -> None:
        await client.frame()
        client.writer.write(bytes.fromhex(answer))

    async def scenario() -> None:
        async with raw_server(misbehave) as endpoint:
            connection = await connected(endpoint, response_bytes_max=1000)
            with pytest.raises(PeerUnreachableError) as failed:
                await connection.call(REQUEST, 0, HeartbeatResponse, timeout_s=TIMEOUT_S)
            assert str(failed.value).startswith(f"{endpoint.address}: {what}")
            assert not connection.is_open

    run(scenario())


def test_an_answer_to_nothing_closes_the_connection(run: Run) -> None:
    async def talk(client: RawClient) -> None:
        client.send(b"\0\0\0\0\0\0")
        await client.is_closed()

    async def scenario() -> None:
        async with raw_server(talk) as endpoint:
            connection = await connected(endpoint)
            await until(lambda: not connection.is_open)
            with pytest.raises(PeerNotConnectedError, match="an answer that nothing was asked for"):
                await connection.call(ControlledShutdownRequest(), 0, HeartbeatResponse, timeout_s=TIMEOUT_S)

    run(scenario())


def test_a_large_answer_arrives_in_pieces(run: Run) -> None:
    async def serve(client: RawClient) -> None:
        for size in (5_000_000, 4, 1_000_000):
            frame = await client.frame()
            client.send(frame[4:8] + bytes(size - 4))
            await client.writer.drain()

    async def scenario() -> None:
        async with raw_server(serve) as endpoint:
            connection = await connected(endpoint)
            for size in (5_000_000, 4, 1_000_000):
                assert len(await connection.call_raw(bytes(8), timeout_s=TIMEOUT_S)) == size

    run(scenario())


def test_where_nothing_listens(run: Run) -> None:
    async def scenario() -> None:
        async with raw_server(lambda _: asyncio.sleep(0)) as endpoint:
            pass
        with pytest.raises(PeerNotConnectedError, match=f"{endpoint.address}: no connection: "):
            await connected(endpoint)
        with pytest.raises(UnresolvableHostError, match="the host name cannot be resolved"):
            await connected(Endpoint("no-such-host.invalid", 9092))

    run(scenario())


def test_tls_and_a_broker_that_speaks_plain(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = make_certificates(tmp_path_factory.mktemp("certificates"))
    settings = TlsSettings(
        keystore_location=str(made.node), truststore_location=str(made.authority), client_auth="required"
    )

    async def greet(client: RawClient) -> None:
        client.writer.write(b"hello")

    async def scenario() -> None:
        async with serving(Scripted(answering), tls=settings) as (_, endpoint):
            connection = await KafkaConnection.open(
                endpoint, client_id="klamm", timeout_s=TIMEOUT_S, tls=client_context(settings)
            )
            assert (await connection.call(REQUEST, 4, HeartbeatResponse, timeout_s=TIMEOUT_S)).error_code == 27
            connection.close()
            with pytest.raises(PeerNotConnectedError, match="no connection: "):
                await KafkaConnection.open(
                    Endpoint("localhost", endpoint.port),
                    client_id="klamm",
                    timeout_s=TIMEOUT_S,
                    tls=client_context(TlsSettings()),
                )
        async with raw_server(greet) as endpoint:
            with pytest.raises(PeerNotConnectedError, match="no connection: "):
                await KafkaConnection.open(
                    Endpoint(HOST, endpoint.port), client_id="klamm", timeout_s=TIMEOUT_S, tls=client_context(settings)
                )

    run(scenario())
