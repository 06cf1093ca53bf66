"""Authenticates a connection to a broker by SASL, as a client.

Source: Kafka SaslClientAuthenticator; KIP-43, KIP-152, KIP-368.
"""

import asyncio
from typing import Final, Protocol, TypeVar

from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.authentication import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from cluster.model.broker import Endpoint
from cluster.model.errors import ConfigError, ErrorCode, PeerRefusesError, known_code
from cluster.model.printable import printable
from cluster.sasl.clients import ClientCredentials, ReadCredentials

# Brokers from 2.4 on have these. With older ones of SaslAuthenticate a session has no end that the client knows.
_HANDSHAKE: Final = 1
_AUTHENTICATE: Final = 1
_REASON_MAX: Final = 300

R = TypeVar("R", bound=Message)


class Call(Protocol):
    """Sends a request over the connection, and awaits its answer."""

    async def __call__(self, request: Message, version: int, response_type: type[R], *, timeout_s: float) -> R:
        """Send it. Raises PeerUnreachableError."""


async def authenticate(call: Call, endpoint: Endpoint, read: ReadCredentials, *, timeout_s: float) -> float | None:
    """Prove to a broker who this side is, and return for how many seconds that counts; None: without an end.

    `read`: reads the credentials, once. Raises PeerRefusesError if the broker does not accept them, or if they cannot
    be used; PeerUnreachableError if it does not answer. What is said names the listener, the mechanism and what to do.
    """
    try:
        credentials = await asyncio.to_thread(read)
        exchange = await asyncio.to_thread(credentials.begin)
    except ConfigError as error:
        raise _refused(endpoint, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error
    handshake = SaslHandshakeRequest(mechanism=credentials.mechanism)
    offered = await call(handshake, _HANDSHAKE, SaslHandshakeResponse, timeout_s=timeout_s)
    if offered.error_code != ErrorCode.NONE:
        raise _refused(endpoint, known_code(offered.error_code), _why_no_handshake(credentials, offered))
    answer = SaslAuthenticateResponse()
    while True:
        try:
            # Hashes take milliseconds.
            message = await asyncio.to_thread(exchange.step, answer.auth_bytes)
        except ConfigError as error:
            raise _refused(endpoint, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error
        if message is None:
            return answer.session_lifetime_ms / 1000 if answer.session_lifetime_ms > 0 else None
        request = SaslAuthenticateRequest(auth_bytes=message)
        answer = await call(request, _AUTHENTICATE, SaslAuthenticateResponse, timeout_s=timeout_s)
        if answer.error_code != ErrorCode.NONE:
            raise _refused(endpoint, known_code(answer.error_code), _why_not_accepted(credentials, answer))


def _why_no_handshake(credentials: ClientCredentials, offered: SaslHandshakeResponse) -> str:
    if offered.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        found = ", ".join(printable(name[:40]) for name in offered.mechanisms[:10]) or "none"
        return (
            f"it does not take the mechanism {credentials.mechanism}, only {found}: set "
            f"{credentials.mechanism_setting} to one of them, with its credentials"
        )
    return f"SaslHandshake is answered with {known_code(offered.error_code).name}"


def _why_not_accepted(credentials: ClientCredentials, answer: SaslAuthenticateResponse) -> str:
    reason = printable((answer.error_message or known_code(answer.error_code).name)[:_REASON_MAX])
    user = f" of user {credentials.user!r}" if credentials.user else ""
    return (
        f"it does not accept the {credentials.mechanism} credentials{user}: {reason}: correct "
        f"{credentials.setting or 'them'}, or the user on the brokers' side"
    )


def _refused(endpoint: Endpoint, code: ErrorCode, why: str) -> PeerRefusesError:
    return PeerRefusesError(endpoint.address, code, f"listener {endpoint.listener}: {why}")
