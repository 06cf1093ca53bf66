"""A listener for clients that speak Kafka's protocol: lets connections in, within limits, each with a handler."""

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import structlog

from cluster.errors import StartupError
from cluster.kafka_wire.frames import FrameMemory
from cluster.kafka_wire.served_connection import (
    ORDINARY_ENDS,
    ClientReader,
    ConnectionHandler,
    Peer,
    ServedConnection,
    ServerLimits,
)
from cluster.process.tasks import TaskSet

_log = structlog.stdlib.get_logger()

_BACKLOG: Final = 128
_STREAM_BYTES: Final = 65_536
_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_S: Final = 1.0
"""Before the next attempt to accept where the process has no file or memory left, as asyncio's own servers do."""


class KafkaServer:
    """The listener. `open_handler` is called for each connection that is let in; `tasks`: those of its connections."""

    def __init__(self, open_handler: Callable[[Peer], ConnectionHandler], limits: ServerLimits, tasks: TaskSet) -> None:
        self._open_handler, self._limits, self._tasks = open_handler, limits, tasks
        self._memory = FrameMemory(limits.memory_bytes_max)
        self._connections: dict[ServedConnection, asyncio.Task[None]] = {}
        self._per_ip: Counter[str] = Counter()
        self._tls: ssl.SSLContext | None = None
        self._accepting: asyncio.Task[None] | None = None

    @property
    def open_connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen at one address; returns the port, a free one for 0. No host: all addresses of this machine.

        Raises StartupError if the address cannot be bound.
        """
        self._tls = tls
        try:
            listening = await _listening_socket(host, port)
        except OSError as error:
            raise StartupError(
                f"klamm.kafka.listeners: {host}:{port} cannot be bound: {error.strerror}; choose a free port and an "
                "address of this machine"
            ) from error
        self._accepting = self._tasks.start(self._accept(listening), name="Kafka listener")
        return int(listening.getsockname()[1])

    async def stop(self, grace_s: float = 1.0) -> None:
        """Accept no more, close idle connections, give requests `grace_s` to be answered, then close the others."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        for connection, task in self._connections.items():
            if not connection.is_working:
                task.cancel()
        for timeout_s in (grace_s, None):
            tasks = [*self._connections.values()]
            if not tasks:
                return
            await asyncio.wait(tasks, timeout=timeout_s)
            for task in self._connections.values():
                task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, address = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in _OUT_OF_FILES:
                        _log.warning("No Kafka connection can be accepted", why=error.strerror)
                        await asyncio.sleep(_PAUSE_S)
                    continue
                self._let_in(accepted, Peer(*address[:2]))

    def _let_in(self, accepted: socket.socket, peer: Peer) -> None:
        limits = self._limits
        if len(self._connections) >= limits.connections_max:
            _log.warning("Kafka connection refused", peer=peer.host, max_connections=limits.connections_max)
            accepted.close()
        elif self._per_ip[peer.host] >= limits.connections_per_ip_max:
            _log.warning(
                "Kafka connection refused", peer=peer.host, max_connections_per_ip=limits.connections_per_ip_max
            )
            accepted.close()
        else:
            connection = ServedConnection(peer, limits, self._memory)
            self._per_ip[peer.host] += 1
            task = self._tasks.start(self._serve(connection, accepted), name=f"Kafka connection of {peer}")
            self._connections[connection] = task
            task.add_done_callback(lambda _: self._forget(connection))

    def _forget(self, connection: ServedConnection) -> None:
        del self._connections[connection]
        self._per_ip[connection.peer.host] -= 1
        if not self._per_ip[connection.peer.host]:
            del self._per_ip[connection.peer.host]

    async def _serve(self, connection: ServedConnection, accepted: socket.socket) -> None:
        """Serve a connection until it ends. Raises nothing, so that no client can end the program."""
        transport: asyncio.Transport | None = None
        try:
            loop, reader = asyncio.get_running_loop(), ClientReader(_STREAM_BYTES)
            protocol = asyncio.StreamReaderProtocol(reader)
            timeout_s: dict[str, Any] = {} if self._tls is None else {"ssl_handshake_timeout": self._limits.setup_s}
            # Not checked: uvloop's transports are not of asyncio's classes.
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=self._tls, **timeout_s)
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            await connection.serve(reader, writer, self._open_handler(connection.peer))
        except ORDINARY_ENDS as error:
            _log.debug("Kafka connection closed", peer=str(connection.peer), why=str(error) or type(error).__name__)
        except Exception:
            _log.exception("A Kafka connection failed", peer=str(connection.peer))
        finally:
            if transport is None:
                accepted.close()
            else:
                # It closes the socket; closed beneath it, uvloop ends the process.
                transport.abort()


async def _listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at the first address of the host, as Kafka's does."""
    dual = not host and socket.has_dualstack_ipv6()
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or ("::" if dual else "0.0.0.0"), port, type=socket.SOCK_STREAM)
    family, _, _, _, address = found[0]
    listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
    listening.setblocking(False)
    return listening
