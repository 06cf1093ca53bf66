"""Bytes before authentication, at every kind of port with TLS: whatever strangers send, or leave unsent, others are
served.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Final, NamedTuple

import pytest

from cluster.aio.tasks import TaskSet
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.metrics.registry import Metrics
from cluster.metrics.server import serve_metrics
from cluster.model.broker import Endpoint
from cluster.requests.cluster import DescribeClusterRequest
from cluster.rpc.client import RpcClient
from cluster.rpc.serving import Listener
from cluster.rpc.transport_security import ChannelSecurity
from cluster.tls.contexts import client_context
from cluster.tls.live import ListenerTls, LiveMaterial
from cluster.tls.settings import TlsSettings
from controller.adapters.grpc_server import serve_controller
from controller.adapters.kafka.wire_server import KafkaServer
from tests.fuzz.budget import count_case
from tests.kafka.handshakes import listening
from tests.kafka.peers import LIMITS, KafkaPeer, places
from tests.processes.certificates import Issuer
from tests.processes.scripted_servers import DESCRIPTION, TIMEOUT_MS, Scripted
from tests.timeouts import TIMEOUT_S

HOST: Final = "127.0.0.1"
PORTS: Final = ("grpc", "kafka", "metrics")
_PLAIN: Final = (
    b"",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    b"\0\0\0\x11\0\x12\0\0\0\0\0\1\0\1c\0\0\0\0\0\0",
    b"\x7f\xff\xff\xff",
    b"\x80\x2e\x01\x03\x01",
    b"\x16\x03\x01\xff\xff",
)
"""What speaks no TLS, or an old one, or begins a record of the largest size."""


class Ports(NamedTuple):
    """Where the servers listen. `ask`: for each kind of port, be served as a client that was there already or comes
    now.
    """

    of: dict[str, int]
    ask: dict[str, Callable[[], Awaitable[object]]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> TlsSettings:
    issuer = Issuer(tmp_path_factory.mktemp("certificates"))
    return TlsSettings(
        keystore_location=str(issuer.issue("node")),
        truststore_location=str(issuer.authority),
        client_auth="required",
    )


@asynccontextmanager
async def serving(settings: TlsSettings) -> AsyncIterator[Ports]:
    material = LiveMaterial(TlsSettings(**{**_fields(settings), "client_auth": "none"}), "test")
    tls = ListenerTls(material, requires_certificates=True, max_age_ms=3_600_000)
    handler, peer = Scripted(lambda _: DESCRIPTION), KafkaPeer({})
    context = client_context(settings)
    async with AsyncExitStack() as stack:
        grpc_server = await serve_controller(Listener(f"{HOST}:0", tls=tls), handler, Metrics())
        stack.push_async_callback(grpc_server.stop, 0)
        kafka_server = KafkaServer(peer.open, LIMITS, await stack.enter_async_context(TaskSet()), places(50))
        kafka_port = await kafka_server.start(HOST, 0, tls=listening(settings))
        stack.push_async_callback(kafka_server.stop, 0)
        metrics, stop = serve_metrics(Metrics(), f"{HOST}:0", None, tls=tls)
        stack.callback(stop)
        known = RpcClient(security=ChannelSecurity(material))
        stack.push_async_callback(known.close)

        async def ask_grpc() -> None:
            for client in (known, RpcClient(security=ChannelSecurity(material))):
                assert await client.call(grpc_server.address, DescribeClusterRequest(), TIMEOUT_MS) == DESCRIPTION
                if client is not known:
                    await client.close()

        async def ask_kafka() -> None:
            endpoint = Endpoint(HOST, kafka_port)
            client = await KafkaConnection.open(endpoint, client_id="c", timeout_s=TIMEOUT_S, tls=context)
            await client.call(ApiVersionsRequest(), 0, ApiVersionsResponse, timeout_s=TIMEOUT_S)
            client.close()

        async def ask_metrics() -> None:
            async with asyncio.timeout(TIMEOUT_S):
                reader, writer = await asyncio.open_connection(HOST, int(metrics.rpartition(":")[2]), ssl=context)
                writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                writer.close()

        await ask_grpc()
        numbers = {"grpc": grpc_server.port, "kafka": kafka_port, "metrics": int(metrics.rpartition(":")[2])}
        yield Ports(numbers, {"grpc": ask_grpc, "kafka": ask_kafka, "metrics": ask_metrics})


def _fields(settings: TlsSettings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def hello() -> bytes:
    """The first flight of a client that trusts anybody and shows nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


def opening(random: Random) -> bytes:
    """What a connection begins with: nearly a handshake, or nothing like it."""
    match random.randrange(5):
        case 0:
            return random.choice(_PLAIN)
        case 1:
            return random.randbytes(random.randrange(1, 3_000))
        case 2:
            return hello()[: random.randrange(1, 300)]
        case 3:
            damaged = bytearray(hello())
            for _ in range(random.randrange(1, 6)):
                damaged[random.randrange(len(damaged))] = random.randrange(256)
            return bytes(damaged)
    return hello() + random.randbytes(random.randrange(1, 500))


async def attack(port: int, random: Random, held: list[asyncio.StreamWriter]) -> None:
    """Send one opening, in pieces or at once; then leave, wait for the answer, or hold the connection."""
    reader, writer = await asyncio.open_connection(HOST, port)
    data = opening(random)
    with suppress(OSError):
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]) if random.random() < 0.5 else (data,):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if random.random() < 0.3:
            held.append(writer)
            return
        if random.random() < 0.5:
            async with asyncio.timeout(0.05):
                await reader.read(10_000)
    writer.close()


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("cases", [60, pytest.param(3_000, marks=pytest.mark.deep)])
async def test_others_are_served_whatever_comes_before_authentication(
    settings: TlsSettings, port: str, cases: int
) -> None:
    random = Random(f"{port} {cases}")
    held: list[asyncio.StreamWriter] = []
    async with serving(settings) as ports:
        for case in range(cases):
            count_case("handshakes")
            await attack(ports.of[port], random, held)
            if case % 20 == 19:
                await ports.ask[port]()
                # As many as a stranger with few descriptors may hold; the rest leaves.
                while len(held) > 30:
                    held.pop(0).close()
        await ports.ask[port]()
        for writer in held:
            writer.close()
        await ports.ask[port]()


@pytest.mark.parametrize("port", PORTS)
async def test_a_handshake_of_one_byte_at_a_time_keeps_nobody_waiting(settings: TlsSettings, port: str) -> None:
    """A slow loris: each connection sends a byte of its hello now and then."""
    async with serving(settings) as ports:
        slow = [(await asyncio.open_connection(HOST, ports.of[port]))[1] for _ in range(20)]
        data = hello()
        for position in range(3):
            for writer in slow:
                with suppress(OSError):
                    writer.write(data[position : position + 1])
            await ports.ask[port]()
        for writer in slow:
            writer.close()
