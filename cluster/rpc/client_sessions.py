"""The client's side of Authenticate: it gets a token from one peer, keeps it, and replaces it in time.

The token travels as call credentials, which gRPC sends over TLS only. Source: KIP-368.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import grpc
from msgspec import Struct

from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.authentication import AuthenticateRequest, AuthenticateResponse
from cluster.rpc.status import error_of
from cluster.sasl.clients import ReadCredentials
from cluster.sasl.mechanisms import ClientExchange

RENEWED_AT: Final = 0.8
"""The part of a session's lifetime after which the next call renews it, in the background."""
_TRIED_AGAIN_AFTER: Final = 0.02
"""The part of a session's lifetime after which a renewal that failed is tried again."""
_MESSAGES_MAX: Final = 4
_PASSING: Final = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.ILLEGAL_SASL_STATE})
"""Refusals of Authenticate after which a later attempt may succeed."""

Ask = Callable[[AuthenticateRequest], Awaitable[AuthenticateResponse]]
"""Sends a message to the peer. It may raise grpc.aio.AioRpcError."""


class _Held(Struct):
    """A token, and on the clock of the event loop, from when on it is renewed and when it ends."""

    credentials: grpc.CallCredentials
    renewed_at: float
    ends_at: float
    lifetime_s: float


class ClientSession:
    """Holds the token for one peer.

    Calls that need one at the same time wait for the same exchange.
    """

    def __init__(self, address: str, read: ReadCredentials, ask: Ask) -> None:
        self._address, self._read, self._ask = address, read, ask
        self._held: _Held | None = None
        self._under_way: asyncio.Task[_Held] | None = None

    async def credentials(self) -> grpc.CallCredentials:
        """Return the credentials of a call, after an exchange if there is no token that counts.

        Raises grpc.aio.AioRpcError as the peer's refusal has it, ConfigError for a file that cannot be used, and
        PeerUnreachableError if a later attempt may succeed.
        """
        held, now = self._held, asyncio.get_running_loop().time()
        if held is None or now >= held.ends_at:
            held = await asyncio.shield(self._exchange())
        elif now >= held.renewed_at:
            # Meanwhile the call is made with the token that there is.
            held.renewed_at = now + held.lifetime_s * _TRIED_AGAIN_AFTER
            self._exchange()
        return held.credentials

    def forget(self, credentials: grpc.CallCredentials) -> None:
        """Drop the token that the peer has refused, unless it was replaced meanwhile."""
        if self._held is not None and self._held.credentials is credentials:
            self._held = None

    async def close(self) -> None:
        """End an exchange that is under way."""
        task = self._under_way
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _exchange(self) -> asyncio.Task[_Held]:
        """The exchange that is under way; another one if there is none."""
        if self._under_way is None:
            task = self._under_way = asyncio.create_task(self._authenticate(), name="authentication")
            task.add_done_callback(self._end)
        return self._under_way

    def _end(self, task: asyncio.Task[_Held]) -> None:
        self._under_way = None
        # Whoever waits gets the error; a renewal in the background is tried again.
        if not task.cancelled() and task.exception() is None:
            self._held = task.result()

    async def _authenticate(self) -> _Held:
        loop = asyncio.get_running_loop()
        credentials = await asyncio.to_thread(self._read)
        exchange = await asyncio.to_thread(credentials.begin)
        # Before the server counts: the token ends there later than it is believed to here.
        began = loop.time()
        response = await self._converse(credentials.mechanism, exchange)
        lifetime_s = response.session_lifetime_ms / 1000
        return _Held(
            grpc.access_token_call_credentials(response.token),
            began + lifetime_s * RENEWED_AT,
            began + lifetime_s,
            lifetime_s,
        )

    async def _converse(self, mechanism: str, exchange: ClientExchange) -> AuthenticateResponse:
        response = AuthenticateResponse()
        for _ in range(_MESSAGES_MAX):
            # Passwords are hashed for milliseconds.
            message = await asyncio.to_thread(exchange.step, response.auth_bytes)
            if message is None and response.token:
                return response
            if message is None:
                break
            try:
                response = await self._ask(AuthenticateRequest(mechanism, response.exchange_id, message))
            except grpc.aio.AioRpcError as error:
                failure = error_of(error, self._address)
                if isinstance(failure, ApiError) and failure.code in _PASSING:
                    raise PeerUnreachableError(self._address, f"cannot authenticate: {failure.message}") from error
                raise
        raise PeerUnreachableError(self._address, "does not end the exchange of Authenticate")
