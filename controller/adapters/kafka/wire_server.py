"""A listener for clients that speak Kafka's protocol: lets connections in, within limits, each with a handler."""

import asyncio
import errno
import select
import socket
from collections.abc import Callable
from typing import Final

import structlog

from cluster.aio.tasks import TaskSet
from cluster.kafka_wire.frames import FrameMemory
from cluster.model.errors import StartupError
from controller.adapters.kafka.connection_table import ConnectionPlace, ConnectionTable
from controller.adapters.kafka.handshakes import Handshakes
from controller.adapters.kafka.served_connection import (
    ORDINARY_ENDS,
    ClientAddress,
    ClientReader,
    ConnectionHandler,
    ServedConnection,
    ServerLimits,
)

_log = structlog.stdlib.get_logger()

_BACKLOG: Final = 128
_STREAM_BYTES: Final = 65_536
_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BYTES_OF_CONNECTION: Final = 8_192
_PAUSE_S: Final = 0.05
"""Before the next attempt to accept where the process has no file left: until that of a closed connection is free."""


class KafkaServer:
    """The listener. `open_handler` is called for each connection that is let in; `tasks`: those of its connections.

    `table`: their places, with those of other listeners of the process. `on_filling`: called for each new connection
    while it may soon matter which hosts `table` knows as those of brokers. `on_freed`: told about how many bytes a
    connection had, when it has ended.
    """

    def __init__(
        self,
        open_handler: Callable[[ClientAddress], ConnectionHandler],
        limits: ServerLimits,
        tasks: TaskSet,
        table: ConnectionTable,
        *,
        on_filling: Callable[[], None] = lambda: None,
        on_freed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._open_handler, self._limits, self._tasks = open_handler, limits, tasks
        self._table, self._on_filling, self._on_freed = table, on_filling, on_freed
        self._memory = FrameMemory(limits.memory_bytes_max)
        self._connections: dict[ServedConnection, asyncio.Task[None]] = {}
        self._tls: Handshakes | None = None
        self._accepting: asyncio.Task[None] | None = None

    @property
    def open_connections(self) -> int:
        """The number of connected clients."""
        return len(self._connections)

    async def start(self, host: str, port: int, *, tls: Handshakes | None = None) -> int:
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
                        await self._free_a_file(listening, loop.time())
                    continue
                self._let_in(accepted, ClientAddress(*address[:2]), loop.time())

    async def _free_a_file(self, listening: socket.socket, now_s: float) -> None:
        """Close the longest idle connection if a client waits for a file. Linux says so even if nobody waits."""
        waiting = select.poll()
        waiting.register(listening, select.POLLIN)
        given_up = self._table.give_up(now_s) if waiting.poll(0) else None
        if given_up is not None:
            _log.warning("Kafka connection closed for a new one", peer=given_up.address, limited_by="open files")
            given_up.close()
        await asyncio.sleep(_PAUSE_S)

    def _let_in(self, accepted: socket.socket, peer: ClientAddress, now_s: float) -> None:
        """Give a connection a place, for which the one that was idle for longest may have to be closed."""
        if self._table.is_filling:
            self._on_filling()
        place = ConnectionPlace(peer.host, now_s, lambda: _cancel(task))
        closed = self._table.enter(place)
        if closed is not None:
            why = "max.connections, max.connections.per.ip or the limit of open files"
            _log.warning("Kafka connection closed for a new one", peer=closed.address, limited_by=why)
        if closed is place:
            accepted.close()
            return
        has_tls = self._tls is not None
        connection = ServedConnection(peer, self._limits, self._memory, self._table, place, has_tls=has_tls)
        task = self._tasks.start(self._serve(connection, accepted), name=f"Kafka connection of {peer}")
        self._connections[connection] = task
        task.add_done_callback(lambda _: self._forget(connection, place, accepted))
        if closed is not None:
            closed.close()

    def _forget(self, connection: ServedConnection, place: ConnectionPlace, accepted: socket.socket) -> None:
        del self._connections[connection]
        self._table.leave(place)
        self._on_freed(_BYTES_OF_CONNECTION)
        if not connection.has_begun:
            # Closed for another before its task ran at all.
            accepted.close()

    async def _serve(self, connection: ServedConnection, accepted: socket.socket) -> None:
        """Serve a connection until it ends. Raises nothing, so that no client can end the program."""
        connection.has_begun = True
        transport: asyncio.Transport | None = None
        try:
            loop, reader = asyncio.get_running_loop(), ClientReader(_STREAM_BYTES)
            protocol = asyncio.StreamReaderProtocol(reader)
            if self._tls is None:
                transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
            else:
                transport = await self._shake_hands(self._tls, accepted, protocol, connection.peer)
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            ssl_object = transport.get_extra_info("ssl_object")
            certificate = None if ssl_object is None else ssl_object.getpeercert(binary_form=True)
            peer = connection.peer._replace(certificate=certificate)
            await connection.serve(reader, writer, self._open_handler(peer))
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

    async def _shake_hands(
        self, tls: Handshakes, accepted: socket.socket, protocol: asyncio.Protocol, peer: ClientAddress
    ) -> asyncio.Transport:
        """Set up TLS within its time. Raises OSError."""
        loop, timeout_s = asyncio.get_running_loop(), self._limits.setup_s
        try:
            async with asyncio.timeout(timeout_s), tls.turn(accepted) as context:
                # Not checked: uvloop's transports are not of asyncio's classes.
                transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context)
        except OSError as error:
            tls.failed(peer.host, error, timeout_s)
            raise
        return transport


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at the first address of the host, as Kafka's does."""
    dual = not host and socket.has_dualstack_ipv6()
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or ("::" if dual else "0.0.0.0"), port, type=socket.SOCK_STREAM)  # noqa: S104 - compared with, or asked for by the operator.
    family, _, _, _, address = found[0]
    listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
    listening.setblocking(False)
    return listening
