"""A connection at a Kafka listener with SASL: its client says who it is before anything else, and again in time.

Source: Kafka SaslServerAuthenticator, KafkaChannel.maybeBeginServerReauthentication; KIP-43, KIP-152, KIP-368.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, NamedTuple

from cluster.kafka_wire.apis import api
from cluster.kafka_wire.codec import decode
from cluster.kafka_wire.headers import RequestHeader, decode_request_header, encode_response
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.authentication import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.printable import printable
from cluster.rpc.authentication_steps import AuthenticationSteps
from cluster.rpc.callers import IdentifiedCaller, host_of
from cluster.sasl.listeners import ServerMechanisms
from cluster.sasl.mechanisms import SaslStep
from cluster.security.identities import Identity
from cluster.security.principals import USER, Principal
from controller.adapters.kafka.broker_versions import BrokerVersions
from controller.adapters.kafka.local_answers import api_versions
from controller.adapters.kafka.served_connection import ConnectionHandler, RefusedConnectionError
from controller.adapters.kafka.versions import OF_SASL, announced

_TO_CLIENT: Final = frozenset({ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE})
"""Errors that a client is told. After others it is to try again, for which its connection is closed: Kafka's clients
take every error in these responses for a wrong password.
"""


class SaslListener(NamedTuple):
    """One listener with SASL. `api_versions`: answers ApiVersions, which clients ask for before they authenticate, many
    of them only then.
    """

    name: str
    mechanisms: ServerMechanisms
    steps: AuthenticationSteps
    api_versions: Callable[[RequestHeader], Awaitable[bytes]]


def announcing(
    own: Collection[ApiKey], versions: BrokerVersions, listener: str
) -> Callable[[RequestHeader], Awaitable[bytes]]:
    """The function that answers ApiVersions at a listener. `own`: the APIs that the controller answers itself."""

    async def found() -> Message:
        return announced((*own, *OF_SASL), await versions.at(listener))

    return partial(api_versions, found=found)


class AuthenticatingSession:
    """One connection. `open_session`: opens what serves the client once it is known who it is. `peer`: as gRPC would
    name its address.
    """

    def __init__(
        self, listener: SaslListener, peer: str, open_session: Callable[[IdentifiedCaller], ConnectionHandler]
    ) -> None:
        self._listener, self._host, self._open_session = listener, host_of(peer), open_session
        self._session: ConnectionHandler | None = None
        self._principal: Principal | None = None
        self._expires_at = 0.0
        """On the clock of the event loop."""
        self._exchange_id: str | None = None
        """The exchange that is under way; empty: it was begun, and no message has come yet."""
        self._mechanism = ""
        self._proven_mechanism = ""
        """That of the session, which it keeps."""
        self._has_headers = True
        self._is_over = False

    @property
    def is_unproven(self) -> bool:
        return self._session is None

    async def handle(self, frame: bytes) -> bytes | None:
        """The response to a request. Raises ClusterError: the connection is to be closed."""
        if self._is_over:
            raise RefusedConnectionError("its authentication failed")
        if self._exchange_id is not None and not self._has_headers:
            return await self._bare_message(frame)
        header, start = decode_request_header(frame)
        if self._exchange_id is not None and header.api_key is not ApiKey.SASL_AUTHENTICATE:
            raise RefusedConnectionError(f"{api(header.api_key).name} in the middle of an authentication")
        if header.api_key is ApiKey.SASL_HANDSHAKE:
            return self._handshake(header, frame, start)
        if header.api_key is ApiKey.SASL_AUTHENTICATE:
            return await self._authenticate(header, frame, start)
        if self._session is not None and asyncio.get_running_loop().time() >= self._expires_at:
            raise RefusedConnectionError("its session has ended, and it did not authenticate again")
        if header.api_key is ApiKey.API_VERSIONS:
            return await self._listener.api_versions(header)
        if self._session is None:
            raise RefusedConnectionError(f"{api(header.api_key).name} before an authentication")
        return await self._session.handle(frame)

    def close(self) -> None:
        """The client has gone."""
        if self._session is not None:
            self._session.close()

    def _handshake(self, header: RequestHeader, frame: bytes, start: int) -> bytes:
        called = api(header.api_key)
        if not called.has(header.api_version):
            raise RefusedConnectionError(f"{called.name} {header.api_version}: UNSUPPORTED_VERSION")
        asked = decode(SaslHandshakeRequest, header.api_version, frame, start)
        known = self._listener.mechanisms.settings.mechanisms
        code = ErrorCode.NONE
        if asked.mechanism in known:
            self._mechanism, self._exchange_id = asked.mechanism, ""
            self._has_headers = header.api_version > 0
        else:
            code, self._is_over = ErrorCode.UNSUPPORTED_SASL_MECHANISM, True
        if self._session is not None and asked.mechanism in known and asked.mechanism != self._proven_mechanism:
            # Kafka accepts the handshake, and closes the connection at the message that follows it.
            why = f"mechanism {asked.mechanism} instead of {self._proven_mechanism}"
            self._is_over = True
            self._listener.steps.report_failure(self._listener.name, self._host, f"re-authentication by {why}")
        answer = SaslHandshakeResponse(error_code=code, mechanisms=known)
        return encode_response(answer, header.api_version, header.correlation_id)

    async def _authenticate(self, header: RequestHeader, frame: bytes, start: int) -> bytes:
        called = api(header.api_key)
        if not called.has(header.api_version):
            raise RefusedConnectionError(f"{called.name} {header.api_version}: UNSUPPORTED_VERSION")
        message = decode(SaslAuthenticateRequest, header.api_version, frame, start).auth_bytes
        try:
            if self._exchange_id is None:
                raise ApiError(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first")
            step, lifetime_ms = await self._step(message)
            answer = SaslAuthenticateResponse(
                error_message=None, auth_bytes=step.answer, session_lifetime_ms=lifetime_ms
            )
        except ApiError as error:
            self._is_over = True
            if error.code not in _TO_CLIENT:
                raise
            answer = SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
        return encode_response(answer, header.api_version, header.correlation_id)

    async def _bare_message(self, message: bytes) -> bytes:
        """Answer a message of the mechanism that came without any header, as after SaslHandshake 0. Raises ApiError:
        there is no other way to refuse it than to close the connection.
        """
        step, _ = await self._step(message)
        return step.answer

    async def _step(self, message: bytes) -> tuple[SaslStep, int]:
        """Take a message of the exchange. Returns with its answer the time in ms that the session lasts, 0 as long as
        there is none. Raises ApiError.
        """
        steps, listener = self._listener.steps, self._listener
        if self._exchange_id:
            try:
                exchange = steps.exchanges.take(self._exchange_id, listener.name)
            except ApiError as error:
                # It gave way to others, or took too long: the client is to begin again.
                raise RefusedConnectionError(str(error)) from error
        else:
            exchange = steps.exchanges.begin(listener.mechanisms.begin(self._mechanism), listener.name, self._host)
        step = await steps.take(exchange, message)
        if step.user is None:
            self._exchange_id = steps.exchanges.keep(exchange)
            return step, 0
        self._exchange_id = None
        return step, self._begin_session(Principal(USER, step.user), step.lifetime_s)

    def _begin_session(self, principal: Principal, lifetime_s: float | None) -> int:
        """Begin the session of a client, or renew it. Returns how long it lasts, in ms. Raises ApiError."""
        if self._principal is not None and principal != self._principal:
            # What is under way for one user must not end with the rights of another.
            why = f"re-authentication cannot change the user of a connection from {self._principal} to {principal}"
            self._listener.steps.report_failure(self._listener.name, self._host, printable(why))
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
        longest_s = self._listener.mechanisms.settings.session_ms / 1000
        lasts_s = longest_s if lifetime_s is None else min(longest_s, lifetime_s)
        self._expires_at = asyncio.get_running_loop().time() + lasts_s
        if self._session is None:
            self._principal, self._proven_mechanism = principal, self._mechanism
            caller = IdentifiedCaller(Identity(principal, self._host), until=self._expires_at)
            self._session = self._open_session(caller)
        return int(lasts_s * 1000)
