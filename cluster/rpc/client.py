"""Calls other nodes in domain types, over one channel for each address. Source: Kafka NetworkClient; KIP-601."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, PeerBusyError, PeerUnreachableError
from cluster.requests.data import FetchRequest
from cluster.requests.request import RequestFor, Response
from cluster.rpc.channels import CLIENT_CONCURRENCY_MAX, channel_options
from cluster.rpc.methods import METHOD_OF_REQUEST, REPLICA_FETCH, Method, encode_request
from cluster.rpc.status import CONNECTION_CLOSED, error_of
from cluster.rpc.transport_security import ChannelSecurity

# A higher exponent would exceed every limit that can be configured.
_DOUBLINGS_MAX = 31
_NO_TLS_HERE = "perhaps it speaks TLS: this side does not, as security.protocol=SSL is not set"

_Callable = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
_StreamCallable = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]


class _Connection:
    """Holds the channel to one address. Calls beyond `CLIENT_CONCURRENCY_MAX` wait."""

    def __init__(self, address: str, connect_timeout_ms: int, security: ChannelSecurity | None) -> None:
        self.connect_timeout_ms = connect_timeout_ms
        self.security = security
        options = channel_options(connect_timeout_ms, is_secured=security is not None)
        self.generation = 0 if security is None else security.generation
        if security is None:
            self.channel = grpc.aio.insecure_channel(address, options=options)
        else:
            self.channel = grpc.aio.secure_channel(address, security.credentials(), options=options)
        self.turns = asyncio.Semaphore(CLIENT_CONCURRENCY_MAX)
        self.closed = False
        self.is_made = False
        """Whether the peer has responded since the connection was last lost."""
        self.offers_replica_fetch = True
        """Whether the peer has a method for followers; klamm 0.2 has none, there they fetch as consumers do."""
        self._callables: dict[str, _Callable] = {}
        self._calls = 0
        self._is_retired = False

    @property
    def is_outdated(self) -> bool:
        """Whether the certificates with which it was made have been replaced."""
        return self.security is not None and self.generation != self.security.generation

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Keep the channel open for a call, even if it is retired meanwhile."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if self._is_retired and self._calls == 0:
                await self.channel.close()

    async def retire(self) -> None:
        """Close the channel as soon as no call is in flight."""
        self._is_retired = True
        if self._calls == 0:
            await self.channel.close()

    def explained(self, failure: PeerUnreachableError) -> PeerUnreachableError:
        """Say more of a connection that the peer closed before it answered anything."""
        if self.is_made or failure.why != CONNECTION_CLOSED:
            return failure
        guess = _NO_TLS_HERE if self.security is None else self.security.why_closed()
        return type(failure)(failure.address, f"{failure.why}: {guess}")

    def callable(self, method: Method) -> _Callable:
        known = self._callables.get(method.path)
        if known is None:
            known = self._callables[method.path] = self.channel.unary_unary(method.path)
        return known


class RpcClient:
    """Sends any request of `cluster.requests` to any node. Channels are opened on first use and kept.

    The timeout of a connection attempt is `connect_timeout_ms`, doubled with every consecutive failure up to
    `connect_timeout_max_ms`, as in Kafka (KIP-601).
    """

    def __init__(
        self,
        *,
        connect_timeout_ms: int = 10_000,
        connect_timeout_max_ms: int = 30_000,
        client_id: str = "",
        security: ChannelSecurity | None = None,
    ) -> None:
        """`client_id`: what it calls itself in each request; quotas of brokers go by it. `security` None: all channels
        are plaintext.
        """
        self._security = security
        self._metadata = (("klamm-client-id", client_id),) if client_id else ()
        self._connect_timeout_ms, self._connect_timeout_max_ms = connect_timeout_ms, connect_timeout_max_ms
        self._failed_attempts: dict[str, int] = {}
        self._connections: dict[str, _Connection] = {}
        self._plaintext: set[str] = set()
        """The addresses that were named as such, while there is `security`."""

    def at(self, endpoint: Endpoint) -> str:
        """The address of an endpoint, whose next connection has TLS or not as its protocol demands."""
        secured = self._security is None or self._security.secures(endpoint)
        (self._plaintext.discard if secured else self._plaintext.add)(endpoint.address)
        return endpoint.address

    async def call(
        self, address: str, request: RequestFor[Response], timeout_ms: float, *, request_id: str = ""
    ) -> Response:
        """Send a request and await its response.

        Raises ApiError if the peer refused, PeerUnreachableError if it did not respond in time: the request may then
        have been processed or not.
        """
        method = METHOD_OF_REQUEST[type(request)]
        connection = await self._connection(address)
        metadata = (*self._metadata, *((("x-request-id", request_id),) if request_id else ())) or None
        if connection.offers_replica_fetch and isinstance(request, FetchRequest) and request.replica_id >= 0:
            method = REPLICA_FETCH
        data = encode_request(request)
        try:
            async with connection.in_use(), connection.turns:
                answer = await connection.callable(method)(data, timeout=timeout_ms / 1000, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            failure = error_of(error, address)
            if isinstance(failure, ApiError | PeerBusyError):
                self._take_answer(address, connection)
            elif method is REPLICA_FETCH and error.code() is grpc.StatusCode.UNIMPLEMENTED:
                connection.offers_replica_fetch = False
                return await self.call(address, request, timeout_ms, request_id=request_id)
            elif error.code() is grpc.StatusCode.UNAVAILABLE:
                failure = connection.explained(failure)
                await self._on_connection_lost(address, connection)
            raise failure from error
        except grpc.aio.UsageError as error:
            raise PeerUnreachableError(address, "the channel was closed") from error
        except asyncio.CancelledError:
            # Closing a channel cancels its calls, which must not look like a cancellation of the caller.
            task = asyncio.current_task()
            if connection.closed and task is not None and not task.cancelling():
                raise PeerUnreachableError(address, "the channel was closed") from None
            raise
        self._take_answer(address, connection)
        response: Response = _decode(method, answer, address)
        return response

    async def stream(self, address: str, request: RequestFor[Response]) -> AsyncGenerator[Response, None]:
        """Send a request with a streamed response and yield its responses, without a deadline, until the peer ends it.

        Raises ApiError if the peer refused, PeerUnreachableError if the connection
        broke; keepalive detects an unresponsive peer.
        """
        method = METHOD_OF_REQUEST[type(request)]
        assert method.streams, f"{method.name} has one answer"
        connection = await self._connection(address)
        async with connection.in_use():
            open_stream: _StreamCallable = connection.channel.unary_stream(method.path)
            call = open_stream(encode_request(request))
            try:
                async for answer in call:
                    yield _decode(method, answer, address)
            except grpc.aio.AioRpcError as error:
                raise error_of(error, address) from error
            finally:
                # If the reader stops, the peer must stop filling the stream.
                call.cancel()

    async def forget(self, address: str) -> None:
        """Close the channel to this address, if there is one; calls in flight fail."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.closed = True
            await connection.channel.close()

    def connect_timeout_ms(self, address: str) -> int:
        """The timeout of the next connection attempt to the address."""
        doublings = min(self._failed_attempts.get(address, 0), _DOUBLINGS_MAX)
        return min(self._connect_timeout_ms << doublings, self._connect_timeout_max_ms)

    async def close(self) -> None:
        """Close all channels; calls in flight fail."""
        for address in tuple(self._connections):
            await self.forget(address)

    async def _connection(self, address: str) -> _Connection:
        """The connection to an address; another one if this is to have TLS now, or not, or with other certificates."""
        former = self._connections.get(address)
        security = None if address in self._plaintext else self._security
        if former is not None and former.security is security and not former.is_outdated:
            return former
        connection = self._connections[address] = _Connection(address, self.connect_timeout_ms(address), security)
        if former is not None:
            await former.retire()
        return connection

    def _take_answer(self, address: str, connection: _Connection) -> None:
        connection.is_made = True
        self._failed_attempts.pop(address, None)

    async def _on_connection_lost(self, address: str, connection: _Connection) -> None:
        """Leave a connection that broke to its channel, which reopens it; after a failed attempt drop the channel.

        A channel keeps the timeout with which it was made, so only a new one can wait longer for its connection.
        """
        if connection.is_made:
            connection.is_made, connection.offers_replica_fetch = False, True
        elif self._connections.get(address) is connection:
            self._failed_attempts[address] = self._failed_attempts.get(address, 0) + 1
            await self.forget(address)


def _decode(method: Method, answer: bytes, address: str) -> Any:
    try:
        return method.response.decode(answer)
    except ApiError as error:
        raise PeerUnreachableError(address, f"answered {method.name} with what cannot be read: {error}") from error
