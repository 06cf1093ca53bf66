"""One client's connection to a listener: its requests, one after the other, and their answers.

While one is worked on, no more is read. Source: Kafka SocketServer, which mutes a channel meanwhile.
"""

import asyncio
from collections.abc import Coroutine
from math import inf
from random import uniform
from typing import Any, Final, NamedTuple, Protocol

import structlog
from msgspec import Struct

from cluster.kafka_wire.frames import FrameMemory, checked_size, read_frame_into, with_size
from cluster.model.broker import joined_address
from cluster.model.errors import ClusterError
from controller.adapters.kafka.connection_table import ConnectionPlace, ConnectionTable, Use

_log = structlog.stdlib.get_logger()

ORDINARY_ENDS: Final = (ClusterError, OSError, asyncio.IncompleteReadError)
"""How connections end: bytes that are no request, a client that is gone or too slow, a failed handshake."""


_UNPROVEN_BYTES_MAX: Final = 65_536
"""Of a request of a client that is not authenticated: the longest has a Kerberos ticket with the client's groups."""
_AGES: Final = (0.9, 1.1)
"""Clients that connected together come back one after the other."""


class RefusedConnectionError(ClusterError):
    """Raised when what a connection sent has no answer: it is closed."""


class ClientAddress(NamedTuple):
    """The address of a client. `certificate`: the one that TLS has verified, in DER form; None without."""

    host: str
    port: int
    certificate: bytes | None = None

    def __str__(self) -> str:
        return joined_address(self.host, self.port)


class ConnectionHandler(Protocol):
    """Serves one connection."""

    @property
    def is_unproven(self) -> bool:
        """Whether its client has still to say who it is. Then its requests are short, it has little time for them, and
        it goes before others.
        """
        ...

    async def handle(self, frame: bytes) -> bytes | None:
        """The answer to a request, both with header; None for a request that has no answer.

        The connection is closed if it raises ClusterError.
        """
        ...

    def close(self) -> None:
        """The connection has ended; called once. If `handle` was waiting, it was cancelled before."""
        ...


class ServerLimits(Struct, frozen=True):
    """Sizes in bytes, times in seconds; each is named with its setting."""

    request_bytes_max: int
    """`socket.request.max.bytes`."""
    memory_bytes_max: int
    """`queued.max.request.bytes`: of the requests of all connections together."""
    idle_s: float
    """`connections.max.idle.ms`: without a request."""
    transfer_s: float
    """`klamm.request.transfer.timeout.ms`: for a request to arrive, and for its answer to be taken."""
    setup_s: float
    """`socket.connection.setup.timeout.ms`: for TLS to be set up, and for a client to authenticate."""
    age_s: float
    """`klamm.tls.connection.max.age.ms`: an idle connection with TLS is closed after this time. Its client makes
    another, in whose handshake an expired certificate is refused.
    """


class ClientReader(asyncio.StreamReader):
    """Holds what a client sends. `ended` is set once it has closed the connection, whatever is still to be read."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()


class ServedConnection:
    """A connection that was let in to `place`. `has_begun`: whether it is being served, or was."""

    def __init__(
        self,
        peer: ClientAddress,
        limits: ServerLimits,
        memory: FrameMemory,
        table: ConnectionTable,
        place: ConnectionPlace,
        *,
        has_tls: bool,
    ) -> None:
        self.peer, self.has_begun = peer, False
        self._limits, self._memory = limits, memory
        self._table, self._place = table, place
        self._ends_at = place.opened_s + limits.age_s * uniform(*_AGES) if has_tls else inf  # noqa: S311 - no secret is drawn.

    @property
    def is_working(self) -> bool:
        """Whether a request is being handled or answered."""
        return self._place.use is Use.WORKING

    async def serve(self, reader: ClientReader, writer: asyncio.StreamWriter, handler: ConnectionHandler) -> None:
        """Answer requests until the client closes. Raises ORDINARY_ENDS; the caller closes the streams."""
        try:
            while await self._answer_next(reader, writer, handler):
                pass
        finally:
            handler.close()

    async def _answer_next(
        self, reader: ClientReader, writer: asyncio.StreamWriter, handler: ConnectionHandler
    ) -> bool:
        """Whether there was a request."""
        now = asyncio.get_running_loop().time()
        ends_at, bytes_max = self._bounds(handler)
        try:
            async with asyncio.timeout_at(min(now + self._limits.idle_s, ends_at)):
                first = await reader.read(1)
        except TimeoutError:
            return False
        if not first:
            return False
        if self._place.use is Use.IDLE:
            self._table.use(self._place, Use.IDLE)
        arrived = bytearray()
        try:
            async with asyncio.timeout(self._limits.transfer_s):
                size = checked_size(first + await reader.readexactly(3), bytes_max)
                await read_frame_into(arrived, reader, size, self._memory)
            self._table.use(self._place, Use.WORKING)
            answer = await _while_connected(reader, self._handled(handler, bytes(arrived)))
            if answer is not None:
                await self._send(writer, answer)
            self._table.use(self._place, Use.FRESH if handler.is_unproven else Use.IDLE)
        finally:
            self._memory.give_back(len(arrived))
        return True

    def _bounds(self, handler: ConnectionHandler) -> tuple[float, int]:
        """Until when the next request has to begin, on the clock of the event loop, and how many bytes it may have."""
        longest = self._limits.request_bytes_max
        if not handler.is_unproven:
            return self._ends_at, longest
        return min(self._ends_at, self._place.opened_s + self._limits.setup_s), min(longest, _UNPROVEN_BYTES_MAX)

    async def _handled(self, handler: ConnectionHandler, frame: bytes) -> bytes | None:
        """The handler's answer. Raises ClusterError."""
        try:
            return await handler.handle(frame)
        except ClusterError:
            raise
        except Exception as error:
            # Without what differs between requests of a kind: a client that repeats one must not fill the log.
            _log.exception("A request of a Kafka client failed; its connection is closed", api=frame[:4].hex())
            raise ClusterError(f"the request failed: {error!r}") from error

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        """Send an answer. The next request is not read before the client has taken most of it."""
        writer.write(with_size(answer))
        async with asyncio.timeout(self._limits.transfer_s):
            await writer.drain()


async def _while_connected(reader: ClientReader, handling: Coroutine[Any, Any, bytes | None]) -> bytes | None:
    """Await the handler's answer; cancel it when the client leaves. Raises ConnectionResetError, ClusterError."""
    task, gone = asyncio.ensure_future(handling), asyncio.ensure_future(reader.ended.wait())
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ConnectionResetError("the client closed the connection while its request was handled")
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)
