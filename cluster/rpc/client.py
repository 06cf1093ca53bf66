"""Calls other nodes in domain types, over one channel for each address. Source: Kafka NetworkClient; KIP-601."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc

from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, PeerBusyError, PeerUnreachableError
from cluster.requests.data import FetchRequest
from cluster.requests.request import RequestFor, Response
from cluster.rpc.methods import METHOD_OF_REQUEST, REPLICA_FETCH, encode_request
from cluster.rpc.peer_connection import PeerConnection, decoded
from cluster.rpc.status import error_of
from cluster.rpc.transport_security import ChannelSecurity
from cluster.sasl.clients import ReadCredentials

# A higher exponent would exceed every limit that can be configured.
_DOUBLINGS_MAX = 31


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
        sasl: ReadCredentials | None = None,
    ) -> None:
        """`client_id`: what it calls itself in each request; quotas of brokers go by it. `security` None: all channels
        are plaintext. `sasl`: reads the credentials of the user whose the calls are, at peers called under TLS.
        """
        self._security, self._sasl = security, sasl
        self._metadata = (("klamm-client-id", client_id),) if client_id else ()
        self._connect_timeout_ms, self._connect_timeout_max_ms = connect_timeout_ms, connect_timeout_max_ms
        self._failed_attempts: dict[str, int] = {}
        self._connections: dict[str, PeerConnection] = {}
        self._retired: set[PeerConnection] = set()
        """Those that were replaced, until their last calls have ended."""
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
                answer = await connection.send(method, data, timeout_ms / 1000, metadata)
        except grpc.aio.AioRpcError as error:
            failure = error_of(error, address)
            if isinstance(failure, ApiError | PeerBusyError):
                self._take_answer(address, connection)
            elif method is REPLICA_FETCH and error.code() is grpc.StatusCode.UNIMPLEMENTED:
                connection.offers_replica_fetch = False
                return await self.call(address, request, timeout_ms, request_id=request_id)
            elif error.code() is grpc.StatusCode.UNAVAILABLE:
                failure = await connection.explained(failure)
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
        response: Response = decoded(method, answer, address)
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
            try:
                async with aclosing(connection.stream(method, encode_request(request))) as answers:
                    async for answer in answers:
                        yield decoded(method, answer, address)
            except grpc.aio.AioRpcError as error:
                raise error_of(error, address) from error

    async def forget(self, address: str) -> None:
        """Close the channel to this address, if there is one; calls in flight fail."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            await connection.close()

    def connect_timeout_ms(self, address: str) -> int:
        """The timeout of the next connection attempt to the address."""
        doublings = min(self._failed_attempts.get(address, 0), _DOUBLINGS_MAX)
        return min(self._connect_timeout_ms << doublings, self._connect_timeout_max_ms)

    async def close(self) -> None:
        """Close all channels; calls in flight fail."""
        for address in tuple(self._connections):
            await self.forget(address)
        for connection in tuple(self._retired):
            await connection.close()

    async def _connection(self, address: str) -> PeerConnection:
        """The connection to an address; another one if this is to have TLS now, or not, or with other certificates."""
        former = self._connections.get(address)
        security = None if address in self._plaintext else self._security
        if former is not None and former.security is security and not former.is_outdated:
            return former
        connection = self._connections[address] = PeerConnection(
            address, self.connect_timeout_ms(address), security, self._sasl
        )
        if former is not None:
            await self._retire(former)
        return connection

    async def _retire(self, connection: PeerConnection) -> None:
        self._retired = {former for former in self._retired if former.is_in_use}
        await connection.retire()
        if connection.is_in_use:
            self._retired.add(connection)

    def _take_answer(self, address: str, connection: PeerConnection) -> None:
        connection.is_made = True
        self._failed_attempts.pop(address, None)

    async def _on_connection_lost(self, address: str, connection: PeerConnection) -> None:
        """Leave a connection that broke to its channel, which reopens it; after a failed attempt drop the channel.

        A channel keeps the timeout with which it was made, so only a new one can wait longer for its connection. What
        is in flight on it has an end of its own: a peer that stops, and so refuses connections, answers what it has.
        """
        if connection.is_made:
            connection.is_made, connection.offers_replica_fetch = False, True
        elif self._connections.get(address) is connection:
            self._failed_attempts[address] = self._failed_attempts.get(address, 0) + 1
            del self._connections[address]
            await self._retire(connection)
