"""The listener: order, bounds of sizes, numbers and times, and streams that are garbage."""

import asyncio
import gc
import resource
import socket
from contextlib import AsyncExitStack

import pytest

from cluster.model.errors import PeerUnreachableError, StartupError
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings
from controller.adapters.kafka.connection_table import ConnectionBounds, ConnectionTable
from tests.kafka.frames import HOST, LIMITS, Scripted, echo, raw_client, serving, until
from tests.processes.certificates import make_certificates
from tests.unit.conftest import Run


async def nothing(_frame: bytes) -> None:
    return None


def test_requests_of_a_connection_are_answered_in_order_one_at_a_time(run: Run) -> None:
    working = 0

    async def answer(frame: bytes) -> bytes | None:
        nonlocal working
        working += 1
        assert working == 1
        # The earlier a request, the longer it takes.
        for _ in range(20 - frame[0]):
            await asyncio.sleep(0)
        working -= 1
        return frame[:1]

    async def scenario() -> None:
        async with serving(Scripted(answer)) as (_, endpoint), raw_client(endpoint) as client:
            client.send(*(bytes([number]) * 100 for number in range(20)))
            assert [await client.frame() for _ in range(20)] == [bytes([number]) for number in range(20)]

    run(scenario())


def test_connections_do_not_wait_for_one_another(run: Run) -> None:
    may_go_on = asyncio.Event()

    async def answer(frame: bytes) -> bytes:
        if frame == b"slow":
            await may_go_on.wait()
        return frame

    async def scenario() -> None:
        async with (
            serving(Scripted(answer)) as (_, endpoint),
            raw_client(endpoint) as slow,
            raw_client(endpoint) as fast,
        ):
            slow.send(b"slow")
            fast.send(b"fast")
            assert await fast.frame() == b"fast"
            may_go_on.set()
            assert await slow.frame() == b"slow"

    run(scenario())


def test_a_request_without_an_answer(run: Run) -> None:
    async def scenario() -> None:
        handler = Scripted(nothing)
        async with serving(handler) as (_, endpoint), raw_client(endpoint) as client:
            client.send(b"one", b"", b"three")
            client.writer.write_eof()
            assert await client.is_closed()
            assert handler.asked == [b"one", b"", b"three"]

    run(scenario())


def test_each_connection_has_an_object_of_its_own_that_ends_with_it(run: Run) -> None:
    async def scenario() -> None:
        handler = Scripted(echo)
        async with serving(handler) as (server, endpoint):
            async with raw_client(endpoint) as client:
                client.send(b"hello")
                assert await client.frame() == b"hello"
                assert handler.opened[0].host == HOST
                assert (len(handler.opened), handler.closed, server.open_connections) == (1, 0, 1)
            await until(lambda: handler.closed > 0)

    run(scenario())


@pytest.mark.parametrize(
    "sent", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02"]
)
def test_what_is_no_frame_costs_the_connection(run: Run, sent: bytes) -> None:
    async def scenario() -> None:
        handler = Scripted(echo)
        async with serving(handler) as (_, endpoint):
            async with raw_client(endpoint) as client:
                client.writer.write(sent)
                assert await client.is_closed()
            async with raw_client(endpoint) as other:
                other.send(b"x")
                assert await other.frame() == b"x"
            assert handler.asked == [b"x"]

    run(scenario())


def test_the_largest_request_is_taken_and_one_byte_more_is_not(run: Run) -> None:
    async def scenario() -> None:
        async with serving(Scripted(echo)) as (_, endpoint), raw_client(endpoint) as client:
            client.send(bytes(LIMITS.request_bytes_max))
            assert len(await client.frame()) == LIMITS.request_bytes_max
            client.send(bytes(LIMITS.request_bytes_max + 1))
            assert await client.is_closed()

    run(scenario())


def test_requests_of_all_connections_share_their_memory(run: Run) -> None:
    may_go_on = asyncio.Event()

    async def answer(frame: bytes) -> bytes:
        await may_go_on.wait()
        return frame[:1]

    async def scenario() -> None:
        handler = Scripted(answer)
        async with serving(handler, memory_bytes_max=150_000) as (_, endpoint), raw_client(endpoint) as first:
            first.send(bytes(100_000))
            await until(lambda: bool(handler.asked))
            async with raw_client(endpoint) as claims, raw_client(endpoint) as sends:
                # What is only claimed takes no room.
                claims.writer.write((100_000).to_bytes(4, "big"))
                sends.send(bytes(60_000))
                assert await sends.is_closed()
            may_go_on.set()
            assert await first.frame() == b"\0"
            first.send(bytes(100_000))
            assert await first.frame() == b"\0"

    run(scenario())


@pytest.mark.rule("D-106")
@pytest.mark.parametrize("bounds", [ConnectionBounds(2, 9, {HOST: 9}), ConnectionBounds(9, 9, {HOST: 2})])
def test_a_new_connection_takes_the_place_of_the_longest_idle_one(run: Run, bounds: ConnectionBounds) -> None:
    async def scenario() -> None:
        handler = Scripted(echo)
        async with serving(handler, table=ConnectionTable(bounds)) as (server, endpoint):
            async with raw_client(endpoint) as first, raw_client(endpoint) as second:
                for client in (second, first):
                    client.send(b"1")
                    assert await client.frame() == b"1"
                async with raw_client(endpoint) as third:
                    third.send(b"3")
                    assert await third.frame() == b"3"
                    assert await second.is_closed()
                    assert server.open_connections == 2
                first.send(b"2")
                assert await first.frame() == b"2"
            await until(lambda: server.open_connections == 0)

    run(scenario())


@pytest.mark.rule("D-106")
@pytest.mark.parametrize("sent", [b"", b"\0\0\0\5abc"])
def test_a_flood_of_silent_connections_keeps_nobody_out(run: Run, sent: bytes) -> None:
    """Half a request is no request; one that is being answered is not closed for others."""
    may_go_on = asyncio.Event()

    async def answer(frame: bytes) -> bytes:
        if frame == b"slow":
            await may_go_on.wait()
        return frame

    async def scenario() -> None:
        handler = Scripted(answer)
        async with serving(handler) as (server, endpoint), raw_client(endpoint) as slow, AsyncExitStack() as flood:
            slow.send(b"slow")
            await until(lambda: handler.asked == [b"slow"])
            for _ in range(40):
                (await flood.enter_async_context(raw_client(endpoint))).writer.write(sent)
            async with raw_client(endpoint) as client:
                client.send(b"x")
                assert await client.frame() == b"x"
            may_go_on.set()
            assert await slow.frame() == b"slow"
            assert server.open_connections <= 10

    run(scenario())


@pytest.mark.rule("D-106")
def test_where_no_connection_may_be_open_each_is_closed(run: Run) -> None:
    async def scenario() -> None:
        table = ConnectionTable(ConnectionBounds(0, 0))
        async with serving(Scripted(echo), table=table) as (_, endpoint), raw_client(endpoint) as client:
            assert await client.is_closed()

    run(scenario())


@pytest.mark.rule("D-106")
def test_a_process_without_a_free_file_closes_the_longest_idle_connection(run: Run) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario() -> None:
        async with serving(Scripted(echo)) as (_, endpoint), raw_client(endpoint) as idle:
            idle.send(b"1")
            assert await idle.frame() == b"1"
            client = socket.socket()
            client.setblocking(False)
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
            with client:
                loop = asyncio.get_running_loop()
                await loop.sock_connect(client, (endpoint.host, endpoint.port))
                await loop.sock_sendall(client, b"\0\0\0\1x")
                assert await loop.sock_recv(client, 5) == b"\0\0\0\1x"
            assert await idle.is_closed()

    try:
        run(scenario())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_idle_connection_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with serving(Scripted(echo), idle_s=0.05) as (_, endpoint), raw_client(endpoint) as client:
            assert await client.is_closed()

    run(scenario())


@pytest.mark.parametrize("sent", [b"\0", b"\0\0\0\5", b"\0\0\0\5abc"])
def test_a_request_that_does_not_arrive_ends_the_connection(run: Run, sent: bytes) -> None:
    async def scenario() -> None:
        async with serving(Scripted(echo), transfer_s=0.05) as (_, endpoint), raw_client(endpoint) as client:
            client.writer.write(sent)
            assert await client.is_closed()

    run(scenario())


def test_a_client_that_does_not_take_its_answer_is_cut_off(run: Run) -> None:
    async def answer(_frame: bytes) -> bytes:
        return bytes(20_000_000)

    async def scenario() -> None:
        handler = Scripted(answer)
        async with serving(handler, transfer_s=0.05) as (server, endpoint), raw_client(endpoint) as client:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.send(b"x")
            await until(lambda: handler.closed > 0 and server.open_connections == 0)

    run(scenario())


def test_a_handler_that_refuses_or_fails_costs_the_connection(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(frame: bytes) -> bytes:
        if frame == b"refuse":
            raise PeerUnreachableError("b1:9092", "gone")
        raise KeyError("a defect")

    async def scenario() -> None:
        async with serving(Scripted(answer)) as (_, endpoint):
            for sent in (b"refuse", b"fail", b"refuse"):
                async with raw_client(endpoint) as client:
                    client.send(sent)
                    assert await client.is_closed()

    run(scenario())


def test_a_client_that_goes_takes_its_request_with_it(run: Run) -> None:
    cancelled = 0

    async def answer(frame: bytes) -> bytes:
        nonlocal cancelled
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            cancelled += 1
            raise
        return frame

    async def scenario() -> None:
        async with serving(Scripted(answer)) as (server, endpoint):
            async with raw_client(endpoint) as client:
                client.send(b"wait for ever")
                await until(lambda: server.open_connections == 1)
                await asyncio.sleep(0.01)
            await until(lambda: server.open_connections == 0)
            assert cancelled == 1

    run(scenario())


def test_clients_that_are_refused_and_go_at_once_do_no_harm(run: Run) -> None:
    async def answer(frame: bytes) -> bytes:
        if frame == b"refuse":
            raise PeerUnreachableError("b1:9092", "gone")
        return frame

    async def scenario() -> None:
        async with serving(Scripted(answer)) as (_, endpoint):
            for _ in range(100):
                async with raw_client(endpoint) as client:
                    client.send(b"refuse")
                    await asyncio.sleep(0.001)
            gc.collect()
            async with raw_client(endpoint) as client:
                client.send(b"still there?")
                assert await client.frame() == b"still there?"

    run(scenario())


def test_stopping_lets_a_request_end_within_the_grace_and_closes_the_rest(run: Run) -> None:
    async def answer(frame: bytes) -> bytes:
        await asyncio.sleep(0.05 if frame == b"short" else 1e6)
        return frame

    async def scenario() -> None:
        handler = Scripted(answer)
        async with (
            serving(handler) as (server, endpoint),
            raw_client(endpoint) as idle,
            raw_client(endpoint) as short,
            raw_client(endpoint) as endless,
        ):
            short.send(b"short")
            endless.send(b"endless")
            await until(lambda: len(handler.asked) == 2 and len(handler.opened) == 3)
            await server.stop(1)
            assert await short.frame() == b"short"
            assert await idle.is_closed()
            assert await endless.is_closed()
            assert handler.closed == 3

    run(scenario())


def test_a_port_in_use_is_refused_by_name(run: Run) -> None:
    async def scenario() -> None:
        async with serving(Scripted(echo)) as (server, endpoint):
            with pytest.raises(StartupError, match=f"127.0.0.1:{endpoint.port} cannot be bound"):
                await server.start(HOST, endpoint.port)

    run(scenario())


def test_tls_is_spoken_and_plain_bytes_are_not_taken(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = make_certificates(tmp_path_factory.mktemp("certificates"))
    settings = TlsSettings(keystore_location=str(made.node), truststore_location=str(made.authority))
    client_tls = client_context(settings)

    async def scenario() -> None:
        async with serving(Scripted(echo), tls=settings) as (_, endpoint):
            async with raw_client(endpoint) as plain:
                plain.send(b"x" * 1000)
                # It may say so in TLS before it closes.
                await plain.is_closed()
            async with raw_client(endpoint, client_tls) as client:
                client.send(b"x" * 90_000)
                assert await client.frame() == b"x" * 90_000

    run(scenario())


@pytest.mark.rule("D-106")
def test_connections_without_a_handshake_go_first_and_end(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = make_certificates(tmp_path_factory.mktemp("certificates"))
    tls = TlsSettings(keystore_location=str(made.node))
    trusting = client_context(TlsSettings(truststore_location=str(made.authority)))

    async def scenario() -> None:
        table = ConnectionTable(ConnectionBounds(2, 2))
        async with (
            serving(Scripted(echo), tls=tls, table=table, setup_s=0.5) as (server, endpoint),
            raw_client(endpoint) as silent,
        ):
            await until(lambda: server.open_connections > 0)
            async with AsyncExitStack() as flood:
                for _ in range(50):
                    half = await flood.enter_async_context(raw_client(endpoint))
                    half.writer.write(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03")
                assert await silent.is_closed()
                async with raw_client(endpoint, trusting) as client:
                    client.send(b"x")
                    assert await client.frame() == b"x"
                assert server.open_connections <= 2
                await until(lambda: server.open_connections == 0)

    run(scenario())
