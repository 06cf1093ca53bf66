"""Both ends of Kafka connections for tests: handlers by script, raw clients, and brokers that misbehave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext

from msgspec.structs import replace

from cluster.aio.tasks import TaskSet
from cluster.model.broker import Endpoint
from cluster.tls.settings import TlsSettings
from controller.adapters.kafka.connection_table import ConnectionBounds, ConnectionTable
from controller.adapters.kafka.served_connection import ClientAddress, ServerLimits
from controller.adapters.kafka.wire_server import KafkaServer
from tests.kafka.handshakes import listening
from tests.timeouts import TIMEOUT_S

HOST = "127.0.0.1"
LIMITS = ServerLimits(
    request_bytes_max=100_000,
    memory_bytes_max=1_000_000,
    idle_s=TIMEOUT_S,
    transfer_s=TIMEOUT_S,
    setup_s=TIMEOUT_S,
    age_s=TIMEOUT_S,
)


class Scripted:
    """Serves each connection with the same function; keeps who was connected, and what was asked."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes | None]]) -> None:
        self.answer = answer
        self.asked: list[bytes] = []
        self.opened: list[ClientAddress] = []
        self.closed = 0

    is_unproven = False

    def open(self, peer: ClientAddress) -> "Scripted":
        self.opened.append(peer)
        return self

    async def handle(self, frame: bytes) -> bytes | None:
        self.asked.append(frame)
        return await self.answer(frame)

    def close(self) -> None:
        self.closed += 1


async def echo(frame: bytes) -> bytes:
    return frame


@asynccontextmanager
async def serving(
    handler: Scripted, *, tls: TlsSettings | None = None, table: ConnectionTable | None = None, **limits: float
) -> AsyncIterator[tuple[KafkaServer, Endpoint]]:
    """`table`: the places of its connections, ten by default."""
    async with TaskSet() as tasks:
        own = ConnectionTable(ConnectionBounds(in_all=10, of_address=10, of_named={HOST: 10}))
        server = KafkaServer(handler.open, replace(LIMITS, **limits), tasks, table or own)
        port = await server.start(HOST, 0, tls=None if tls is None else listening(tls))
        try:
            yield server, Endpoint(HOST, port)
        finally:
            await server.stop(0)
    assert server.open_connections == 0
    assert handler.closed == len(handler.opened)


class RawClient:
    """The bytes of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.writer.write(len(frame).to_bytes(4, "big") + frame)

    async def frame(self) -> bytes:
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    async def is_closed(self) -> bool:
        """Wait for the other side to close the connection; whether it did so without sending anything."""
        return await self.until_closed() == b""

    async def until_closed(self) -> bytes:
        """Wait for the other side to close the connection; what it sent before, if it did not reset it."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it; the test's own timeout bounds the wait."""
    while not condition():  # noqa: ASYNC110 - most of these conditions set no event.
        await asyncio.sleep(0.001)


@asynccontextmanager
async def raw_client(endpoint: Endpoint, tls: SSLContext | None = None) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=tls)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def raw_server(serve: Callable[[RawClient], Awaitable[None]]) -> AsyncIterator[Endpoint]:
    """A broker that does with each connection as it likes, and closes it at the end."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(RawClient(reader, writer))
        writer.close()

    server = await asyncio.start_server(accept, HOST, 0)
    try:
        yield Endpoint(HOST, server.sockets[0].getsockname()[1])
    finally:
        server.close()
