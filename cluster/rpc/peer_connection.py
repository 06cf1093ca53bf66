"""The connection to one peer: its channel, the calls in flight, and whose they are."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc

from cluster.model.errors import (
    ApiError,
    ConfigError,
    ErrorCode,
    PeerUnreachableError,
    TlsFailedError,
    TlsMissingError,
    TlsRefusedError,
)
from cluster.requests.authentication import AuthenticateRequest, AuthenticateResponse
from cluster.rpc.channels import CLIENT_CONCURRENCY_MAX, channel_options
from cluster.rpc.client_sessions import ClientSession
from cluster.rpc.methods import METHOD_OF_REQUEST, Method, encode_request
from cluster.rpc.status import CONNECTION_CLOSED, error_of
from cluster.rpc.transport_security import ChannelSecurity
from cluster.sasl.clients import ReadCredentials
from cluster.tls.probe import speaks_tls

_NO_TLS_HERE: Final = "it speaks TLS, and this side does not, as security.protocol=SSL is not set"
_PROBE_S: Final = 2.0
_AUTHENTICATE: Final = METHOD_OF_REQUEST[AuthenticateRequest]
_AUTHENTICATION_S: Final = 10.0
"""The time for the answer to one message of an exchange."""

_Callable = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
_StreamCallable = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
_Metadata = tuple[tuple[str, str], ...]


class PeerConnection:
    """Holds the channel to one address. Calls beyond `CLIENT_CONCURRENCY_MAX` wait.

    `read`: what reads the credentials of the user; None: calls are not those of a user.
    """

    def __init__(
        self, address: str, connect_timeout_ms: int, security: ChannelSecurity | None, read: ReadCredentials | None
    ) -> None:
        self._address = address
        # Tokens are never sent without TLS.
        self.session = None if read is None or security is None else ClientSession(address, read, self._authenticate)
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

    @property
    def is_in_use(self) -> bool:
        """Whether calls are in flight."""
        return self._calls > 0

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

    async def close(self) -> None:
        """Close the channel; calls in flight fail."""
        self.closed = True
        if self.session is not None:
            await self.session.close()
        await self.channel.close()

    async def send(self, method: Method, data: bytes, timeout_s: float, metadata: _Metadata | None) -> bytes:
        """Send a request and return the response.

        If the peer does not know the token, as after its restart, the call has not been processed: it is repeated once
        with another one. Raises grpc.aio.AioRpcError, ApiError, PeerUnreachableError.
        """
        if self.session is None:
            return await self.callable(method)(data, timeout=timeout_s, metadata=metadata)
        loop = asyncio.get_running_loop()
        ends, is_repeated = loop.time() + timeout_s, False
        while True:
            credentials = await self.credentials(self.session, ends)
            try:
                left_s = ends - loop.time()
                return await self.callable(method)(data, timeout=left_s, metadata=metadata, credentials=credentials)
            except grpc.aio.AioRpcError as error:
                if not self.refuses_token(error) or is_repeated:
                    raise
                self.session.forget(credentials)
                is_repeated = True

    async def credentials(self, session: ClientSession, ends: float | None = None) -> grpc.CallCredentials:
        """Return the credentials of a call. `ends`: on the clock of the event loop. Raises what `send` raises."""
        try:
            async with asyncio.timeout_at(ends):
                return await session.credentials()
        except TimeoutError as error:
            raise PeerUnreachableError(self._address, "timed out") from error
        except ConfigError as error:
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "; ".join(error.errors)) from error

    def refuses_token(self, error: grpc.aio.AioRpcError) -> bool:
        """Whether a call failed because its token does not count."""
        if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
            return False
        failure = error_of(error, self._address)
        return isinstance(failure, ApiError) and failure.code is ErrorCode.ILLEGAL_SASL_STATE

    async def _authenticate(self, request: AuthenticateRequest) -> AuthenticateResponse:
        answer = await self.callable(_AUTHENTICATE)(encode_request(request), timeout=_AUTHENTICATION_S)
        response: AuthenticateResponse = decoded(_AUTHENTICATE, answer, self._address)
        return response

    async def explained(self, failure: PeerUnreachableError) -> PeerUnreachableError:
        """Say more of a connection that the peer closed before it answered anything, if its port speaks TLS.

        Otherwise the peer may as well have ended in that moment.
        """
        if self.is_made or failure.why != CONNECTION_CLOSED or not await speaks_tls(self._address, _PROBE_S):
            return failure
        if self.security is None:
            return TlsMissingError(failure.address, _NO_TLS_HERE)
        why, is_certain = self.security.why_closed()
        return (TlsFailedError if is_certain else TlsRefusedError)(failure.address, f"{failure.why}: {why}")

    def callable(self, method: Method) -> _Callable:
        known = self._callables.get(method.path)
        if known is None:
            known = self._callables[method.path] = self.channel.unary_unary(method.path)
        return known

    async def stream(self, method: Method, data: bytes) -> AsyncGenerator[bytes, None]:
        """Send a request and yield its responses, until the peer ends the stream.

        Raises grpc.aio.AioRpcError, ApiError, and PeerUnreachableError if the session ended meanwhile.
        """
        is_repeated = False
        while True:
            credentials = None if self.session is None else await self.credentials(self.session)
            open_stream: _StreamCallable = self.channel.unary_stream(method.path)
            call = open_stream(data, credentials=credentials)
            has_answered = False
            try:
                async for answer in call:
                    has_answered = True
                    yield answer
                return
            except grpc.aio.AioRpcError as error:
                if self.session is None or credentials is None or not self.refuses_token(error):
                    raise
                self.session.forget(credentials)
                if has_answered or is_repeated:
                    raise PeerUnreachableError(self._address, "the session of the caller has ended") from error
                is_repeated = True
            finally:
                # If the reader stops, the peer must stop filling the stream.
                call.cancel()


def decoded(method: Method, answer: bytes, address: str) -> Any:
    """Decode a response. Raises PeerUnreachableError for one that cannot be read."""
    try:
        return method.response.decode(answer)
    except ApiError as error:
        raise PeerUnreachableError(address, f"answered {method.name} with what cannot be read: {error}") from error
