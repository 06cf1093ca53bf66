"""A connection to a Kafka broker: requests go out in the order of the calls, and are answered in that order.

At a listener with SASL it authenticates first, and again before the broker would take no more requests.
"""

import asyncio
import socket
import ssl
from collections import deque
from itertools import count
from typing import Final, NamedTuple, Self, TypeVar, cast

from cluster.kafka_wire.client_authentication import authenticate, read_credentials
from cluster.kafka_wire.errors import MalformedMessageError
from cluster.kafka_wire.frames import FrameError, FrameSplitter, with_size
from cluster.kafka_wire.headers import decode_response, encode_request
from cluster.kafka_wire.message import Message
from cluster.model.broker import Endpoint
from cluster.model.errors import PeerNotConnectedError, PeerUnreachableError, UnresolvableHostError
from cluster.sasl.clients import ClientCredentials, ReadCredentials
from cluster.tls.untrusted import why_not_accepted

RESPONSE_BYTES_MAX: Final = 128 * 1024 * 1024
"""A broker's metadata of 100,000 partitions has about 10 MB."""
_RENEWED_AFTER: Final = 0.8
"""The part of a session after which the connection authenticates again, as klamm's own clients do."""
_CORRELATION_IDS: Final = 2**31
_ID_OF_REQUEST: Final = slice(4, 8)
_ID_OF_RESPONSE: Final = slice(0, 4)

R = TypeVar("R", bound=Message)


class _Login(NamedTuple):
    """How a connection authenticates, and where."""

    endpoint: Endpoint
    read: ReadCredentials
    timeout_s: float


class _Call(NamedTuple):
    """A request that was sent. `correlation_id` as on the wire."""

    correlation_id: bytes
    answer: asyncio.Future[bytes]


class KafkaConnection(asyncio.Protocol):
    """One connection, made by `open`. After any failure it is closed; whoever wants another opens it."""

    def __init__(self, address: str, client_id: str, response_bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self.address, self.client_id = address, client_id
        self.tls: ssl.SSLContext | None = None
        """What the connection was made with; None: without TLS."""
        self._splitter = FrameSplitter(response_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._calls: deque[_Call] = deque()
        self._ids = count()
        self._why_closed = ""
        self._login: _Login | None = None
        self._credentials: ClientCredentials | None = None
        """Those of the last authentication."""
        self._authenticating = asyncio.Lock()
        self._renewed_at: float | None = None
        """On the clock of the event loop; None: never, or not yet."""

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        *,
        client_id: str,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        login: ReadCredentials | None = None,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> Self:
        """Connect, with TLS if a context is given, and authenticate if there is a login.

        `login`: reads the credentials at each authentication. `timeout_s`: for the connection, and for each answer to
        the authentication. Raises PeerNotConnectedError, UnresolvableHostError; and with a login what `authenticate`
        raises.
        """
        address = endpoint.address
        connection = cls(address, client_id, response_bytes_max)
        connection.tls = tls
        name = endpoint.host if tls is not None else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(
                    lambda: connection, endpoint.host, endpoint.port, ssl=tls, server_hostname=name
                )
        except TimeoutError as error:
            raise PeerNotConnectedError(address, f"no connection within {timeout_s:g} s") from error
        except socket.gaierror as error:
            raise UnresolvableHostError(address, f"the host name cannot be resolved: {error.strerror}") from error
        except (OSError, ssl.SSLError) as error:
            raise PeerNotConnectedError(address, f"no connection: {why_not_accepted(str(error))}") from error
        if login is not None:
            connection._login = _Login(endpoint, login, timeout_s)
            await connection._authenticate(connection._login)
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def call(self, request: Message, version: int, response_type: type[R], *, timeout_s: float) -> R:
        """Send a request and await its answer. Raises PeerUnreachableError; what `encode` raises, without sending."""
        await self._stay_authenticated()
        return await self._call(request, version, response_type, timeout_s=timeout_s)

    async def _call(self, request: Message, version: int, response_type: type[R], *, timeout_s: float) -> R:
        frame = encode_request(request, version, next(self._ids) % _CORRELATION_IDS, self.client_id)
        answer = await self._sent(frame, timeout_s)
        try:
            return decode_response(response_type, version, answer)[1]
        except MalformedMessageError as error:
            self._fail(str(error))
            raise PeerUnreachableError(self.address, str(error)) from error

    async def call_raw(self, frame: bytes, *, timeout_s: float) -> bytes:
        """Send a request's header and body as they are, and await header and body of the answer.

        Raises PeerUnreachableError; PeerNotConnectedError if nothing was sent.
        """
        await self._stay_authenticated()
        return await self._sent(frame, timeout_s)

    async def _sent(self, frame: bytes, timeout_s: float) -> bytes:
        if self._transport is None or self._transport.is_closing():
            raise PeerNotConnectedError(self.address, self._why_closed or "the connection is closed")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._calls.append(_Call(frame[_ID_OF_REQUEST], answer))
        self._transport.write(with_size(frame))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            # Answers come in order, so none can come for later requests either.
            self._fail(f"no answer within {timeout_s:g} s")
            raise PeerUnreachableError(self.address, self._why_closed) from error

    async def _stay_authenticated(self) -> None:
        """Authenticate again if the session ends soon. Between the messages of that nothing else may be sent, so others
        wait. A session that ended while nothing was sent is renewed in the same way: the broker looks at it only when
        the next request comes.
        """
        if self._login is None or self._renewed_at is None:
            return
        if not self._authenticating.locked() and asyncio.get_running_loop().time() < self._renewed_at:
            return
        async with self._authenticating:
            # Another call may have done it meanwhile.
            if self._renewed_at is not None and asyncio.get_running_loop().time() >= self._renewed_at:
                await self._authenticate(self._login)

    async def _authenticate(self, login: _Login) -> None:
        endpoint, timeout_s = login.endpoint, login.timeout_s
        try:
            credentials = await read_credentials(endpoint, login.read, timeout_s=timeout_s)
            self._keep_identity(credentials)
            lifetime_s = await authenticate(self._call, endpoint, credentials, timeout_s=timeout_s)
        except BaseException as error:
            # Also if the caller gave up: nobody knows then what the broker expects next.
            self._fail(error.why if isinstance(error, PeerUnreachableError) else "it was not authenticated")
            raise
        self._credentials = credentials
        now = asyncio.get_running_loop().time()
        self._renewed_at = None if lifetime_s is None else now + _RENEWED_AFTER * lifetime_s

    def _keep_identity(self, credentials: ClientCredentials) -> None:
        """Raise PeerNotConnectedError if the connection was authenticated with another mechanism or as another user: a
        broker refuses to change either (KIP-368), so that another connection is needed.
        """
        before = self._credentials
        if before is not None and credentials.identity != before.identity:
            why = f"made as {before.identity}, and the credentials are those of {credentials.identity}"
            raise PeerNotConnectedError(self.address, why)

    def close(self) -> None:
        """Close it; calls that await an answer fail."""
        self._fail("the connection was closed here")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an assertion: uvloop's transports are not of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._answer(frame)
        except FrameError as error:
            self._fail(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}" if exc else "the other side closed the connection")

    def _answer(self, frame: bytes) -> None:
        if not self._calls:
            raise FrameError("an answer that nothing was asked for")
        call, found = self._calls[0], frame[_ID_OF_RESPONSE]
        if found != call.correlation_id:
            raise FrameError(f"an answer with correlation id {found.hex()} where {call.correlation_id.hex()} is next")
        self._calls.popleft()
        # The caller may have given up meanwhile.
        if not call.answer.done():
            call.answer.set_result(frame)

    def _fail(self, why: str) -> None:
        """Close the connection and fail all calls. Only the first reason counts."""
        self._why_closed = self._why_closed or why
        if self._transport is not None:
            self._transport.abort()
        while self._calls:
            answer = self._calls.popleft().answer
            if not answer.done():
                answer.set_exception(PeerUnreachableError(self.address, self._why_closed))
