"""Authenticates a connection to a broker by SASL, as a client.

Source: Kafka SaslClientAuthenticator; KIP-43, KIP-152, KIP-368.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol, TypeVar

from cluster.aio.bounded_threads import BoundedThreads
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.authentication import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from cluster.model.broker import Endpoint
from cluster.model.errors import ConfigError, ErrorCode, PeerRefusesError, PeerUnreachableError, known_code
from cluster.model.printable import printable
from cluster.sasl.clients import ClientCredentials, ReadCredentials
from cluster.sasl.mechanisms import GSSAPI

# Brokers from 2.4 on have these. With older ones of SaslAuthenticate a session has no end that the client knows.
_HANDSHAKE: Final = 1
_AUTHENTICATE: Final = 1
_REASON_MAX: Final = 300

R = TypeVar("R", bound=Message)
T = TypeVar("T")
_threads: Final = ThreadPoolExecutor(8, "sasl")
_of_kerberos: Final = BoundedThreads("kerberos", per_key=3)
"""A step asks a key distribution center, and waits for most of a minute for each that does not answer. With three for
each broker one is free while the library tries to renew tickets that are still valid, once in 30 s.
"""


class Call(Protocol):
    """Sends a request over the connection, and awaits its answer."""

    async def __call__(self, request: Message, version: int, response_type: type[R], *, timeout_s: float) -> R:
        """Send it. Raises PeerUnreachableError."""


async def read_credentials(endpoint: Endpoint, read: ReadCredentials, *, timeout_s: float) -> ClientCredentials:
    """Read the credentials, once. Raises PeerRefusesError if they cannot be used; PeerUnreachableError if it takes too
    long.
    """
    try:
        return await _off_loop(endpoint, read, timeout_s)
    except ConfigError as error:
        raise _refused(endpoint, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error


async def authenticate(
    call: Call, endpoint: Endpoint, credentials: ClientCredentials, *, timeout_s: float
) -> float | None:
    """Prove to a broker who this side is, and return for how many seconds that counts; None: without an end.

    Raises PeerRefusesError if the broker does not accept the credentials, or if they cannot be used;
    PeerUnreachableError if it does not answer. What is said names the listener, the mechanism and what to do.
    """
    try:
        exchange = await _off_loop(endpoint, partial(credentials.begin, endpoint.host), timeout_s)
    except ConfigError as error:
        raise _refused(endpoint, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error
    handshake = SaslHandshakeRequest(mechanism=credentials.mechanism)
    offered = await call(handshake, _HANDSHAKE, SaslHandshakeResponse, timeout_s=timeout_s)
    if offered.error_code != ErrorCode.NONE:
        raise _refused(endpoint, known_code(offered.error_code), _why_no_handshake(credentials, offered))
    answer = SaslAuthenticateResponse()
    off_loop = _asking_kdc if credentials.mechanism == GSSAPI else _off_loop
    while True:
        try:
            message = await off_loop(endpoint, partial(exchange.step, answer.auth_bytes), timeout_s)
        except ConfigError as error:
            raise _refused(endpoint, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error
        if message is None:
            return answer.session_lifetime_ms / 1000 if answer.session_lifetime_ms > 0 else None
        request = SaslAuthenticateRequest(auth_bytes=message)
        answer = await call(request, _AUTHENTICATE, SaslAuthenticateResponse, timeout_s=timeout_s)
        if answer.error_code != ErrorCode.NONE:
            raise _refused(endpoint, known_code(answer.error_code), _why_not_accepted(credentials, answer))


async def _off_loop(endpoint: Endpoint, work: Callable[[], T], timeout_s: float) -> T:
    """Work in a thread: files are read, and hashes take milliseconds."""
    return await _within(endpoint, asyncio.get_running_loop().run_in_executor(_threads, work), timeout_s)


async def _asking_kdc(endpoint: Endpoint, work: Callable[[], T], timeout_s: float) -> T:
    """Work in a thread that others wait for only at the same broker."""
    return await _within(endpoint, _of_kerberos.run(endpoint.host, work), timeout_s)


async def _within(endpoint: Endpoint, working: Awaitable[T], timeout_s: float) -> T:
    try:
        async with asyncio.timeout(timeout_s):
            return await working
    except TimeoutError as error:
        why = f"the next message to it was not ready within {timeout_s:g} s: does the KDC in krb5.conf answer?"
        raise PeerUnreachableError(endpoint.address, f"listener {endpoint.listener}: {why}") from error


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
