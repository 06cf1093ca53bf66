"""A listener for clients that speak Kafka's protocol.

Each connection is served by an object of its own, one request at a time, and answered in order; while one is worked on,
no more is read from that connection. Source: Kafka SocketServer, which mutes a channel meanwhile.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import structlog
from msgspec import Struct

from cluster.errors import ClusterError, StartupError
from cluster.kafka_wire.frames import FrameMemory, checked_size, read_frame_into, with_size

_log = structlog.stdlib.get_logger()

_ENDS: Final = (ClusterError, OSError, asyncio.IncompleteReadError)
"""Ordinary ends of a connection: bytes that are no request, a client that is gone or too slow, a failed handshake."""


class Peer(NamedTuple):
    """The address of a client."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ConnectionHandler(Protocol):
    """What serves one connection."""

    async def handle(self, frame: bytes) -> bytes | None:
        """The answer to a request, both with header; None for a request that has no answer.

        The connection is closed if it raises ClusterError.
        """
        ...

    def close(self) -> None:
        """The connection has ended; called once, also while `handle` waits, which is cancelled before."""
        ...


class ServerLimits(Struct, frozen=True):
    """Sizes in bytes, times in seconds; each has the bound of the setting that is named."""

    request_bytes_max: int
    """`socket.request.max.bytes`."""
    memory_bytes_max: int
    """`queued.max.request.bytes`: of the requests of all connections together."""
    connections_max: int
    """`max.connections`."""
    connections_per_ip_max: int
    """`max.connections.per.ip`."""
    idle_s: float
    """`connections.max.idle.ms`: without a request."""
    transfer_s: float
    """`klamm.request.transfer.timeout.ms`: for a request to arrive, and for its answer to be taken."""
    setup_s: float
    """`socket.connection.setup.timeout.ms`: for TLS to be set up."""


class _Connection:
    """One client: its streams, and what serves it."""

    def __init__(self, peer: Peer, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self.peer, self.task, self.writer = peer, task, writer
        self.is_working = False
        """Whether a request is being handled or answered."""


class KafkaServer:
    """The listener. `open_handler` is called for each connection that is let in."""

    def __init__(self, open_handler: Callable[[Peer], ConnectionHandler], limits: ServerLimits) -> None:
        self._open_handler, self._limits = open_handler, limits
        self._memory = FrameMemory(limits.memory_bytes_max)
        self._connections: dict[_Connection, None] = {}
        self._per_ip: Counter[str] = Counter()
        self._tls: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._is_stopping = False

    @property
    def open_connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port, a free one for 0. Raises StartupError if the address cannot be bound."""
        self._tls = tls
        try:
            self._server = await asyncio.start_server(self._accept, host, port)
        except OSError as error:
            raise StartupError(
                f"klamm.kafka.listeners: {host}:{port} cannot be bound: {error.strerror}; choose a free port, or an "
                "address of this machine"
            ) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float = 1.0) -> None:
        """Accept no more, close idle connections, give requests `grace_s` to be answered, then close the others."""
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        idle = [connection for connection in self._connections if not connection.is_working]
        for connection in idle:
            connection.task.cancel()
        if self._connections:
            await asyncio.wait([connection.task for connection in self._connections], timeout=grace_s)
        left = [connection.task for connection in self._connections]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until it ends. Raises nothing, since nobody would see it."""
        task, address = asyncio.current_task(), writer.get_extra_info("peername")
        assert task is not None, "the event loop accepts connections in tasks"
        peer = Peer(*address[:2]) if address else Peer("", 0)
        connection = _Connection(peer, task, writer)
        if not self._let_in(connection):
            writer.transport.abort()
            return
        try:
            await self._serve_tls(connection, reader)
        except _ENDS as error:
            _log.debug("Kafka connection closed", peer=str(peer), why=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            _log.debug("Kafka connection closed", peer=str(peer), why="this process stops serving")
        finally:
            self._forget(connection)
            writer.transport.abort()

    def _let_in(self, connection: _Connection) -> bool:
        limits, host = self._limits, connection.peer.host
        if self._is_stopping:
            return False
        if len(self._connections) >= limits.connections_max:
            _log.warning("Kafka connection refused", peer=host, max_connections=limits.connections_max)
            return False
        if self._per_ip[host] >= limits.connections_per_ip_max:
            _log.warning("Kafka connection refused", peer=host, max_connections_per_ip=limits.connections_per_ip_max)
            return False
        self._connections[connection] = None
        self._per_ip[host] += 1
        return True

    def _forget(self, connection: _Connection) -> None:
        del self._connections[connection]
        self._per_ip[connection.peer.host] -= 1
        if not self._per_ip[connection.peer.host]:
            del self._per_ip[connection.peer.host]

    async def _serve_tls(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        if self._tls is not None:
            # After it was counted: connections that never finish the handshake are bounded, too.
            await connection.writer.start_tls(self._tls, ssl_handshake_timeout=self._limits.setup_s)
        handler = self._open_handler(connection.peer)
        try:
            await self._serve(connection, reader, handler)
        finally:
            handler.close()

    async def _serve(self, connection: _Connection, reader: asyncio.StreamReader, handler: ConnectionHandler) -> None:
        """Answer one request after the other, until the client goes away or nothing has come for too long."""
        arrived = bytearray()
        while not self._is_stopping:
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    first = await reader.read(1)
                if not first:
                    return
                async with asyncio.timeout(self._limits.transfer_s):
                    prefix = first + await reader.readexactly(3)
                    size = checked_size(prefix, self._limits.request_bytes_max)
                    await read_frame_into(arrived, reader, size, self._memory)
                connection.is_working = True
                answer = await _handled(handler, bytes(arrived))
                if answer is not None:
                    await self._send(connection, answer)
            finally:
                connection.is_working = False
                self._memory.give_back(len(arrived))
                arrived.clear()

    async def _send(self, connection: _Connection, answer: bytes) -> None:
        """Send an answer. The next request is not read before the client has taken most of it."""
        connection.writer.write(with_size(answer))
        async with asyncio.timeout(self._limits.transfer_s):
            await connection.writer.drain()


async def _handled(handler: ConnectionHandler, frame: bytes) -> bytes | None:
    """The handler's answer. Raises ClusterError."""
    try:
        return await handler.handle(frame)
    except ClusterError:
        raise
    except Exception as error:
        _log.exception("A request of a Kafka client failed; its connection is closed", frame_begins=frame[:16].hex())
        raise ClusterError(f"the request failed: {error!r}") from error
