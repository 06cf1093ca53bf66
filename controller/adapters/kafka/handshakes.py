"""TLS handshakes of Kafka's clients: few at a time, so that the event loop serves others in between, and those that
fail counted and logged.

A handshake costs the event loop some milliseconds, and whoever reaches the port may begin one. A client that has sent
nothing costs nothing, so it takes no turn; one that stops in the middle loses its turn after a moment, though not its
handshake.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from cluster.metrics.registry import Metrics
from cluster.tls.live import LiveContexts
from cluster.tls.refusals import RefusedHandshakes

AT_ONCE: Final = 8
"""Handshakes that have a turn at the same time: about 20 ms of the event loop."""
TURN_S_MAX: Final = 0.1
"""A turn ends after this many seconds, whether the handshake has or not."""
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
    "UNSUPPORTED_PROTOCOL": "it speaks no version of TLS that ssl.enabled.protocols names",
    "NO_SHARED_CIPHER": "it has no cipher in common with this side",
}
"""OpenSSL's names for what a client did, and ours."""
_LEFT: Final = "it closed the connection, perhaps because it does not trust the certificate of this side"

_log = structlog.stdlib.get_logger()


class Handshakes:
    """Gives turns to the handshakes of a listener, and records those that failed.

    `contexts`: what they are made with. `turns`: a place for each of the handshakes that all listeners of the process
    make at the same time. `refused`: remembers those that failed.
    """

    def __init__(
        self,
        listener: str,
        contexts: LiveContexts,
        turns: asyncio.Semaphore,
        metrics: Metrics,
        refused: RefusedHandshakes,
    ) -> None:
        self._listener, self._contexts, self._turns, self._refused = listener, contexts, turns, refused
        self._failed = metrics.meter("klamm.tls", "Handshakes", "Failed", listener=listener)

    @asynccontextmanager
    async def turn(self, client: socket.socket) -> AsyncIterator[ssl.SSLContext]:
        """Wait until the client has sent something and few others shake hands; within it, shake hands by this context.

        `client`: not blocking, and without a transport. Raises OSError, and IncompleteReadError if it only left, as
        those do who look whether the port is open.
        """
        await _sent_something(client)
        await self._turns.acquire()
        turn = _Turn(self._turns)
        late = asyncio.get_running_loop().call_later(TURN_S_MAX, turn.end)
        try:
            yield self._contexts.current()
        finally:
            late.cancel()
            turn.end()

    def failed(self, host: str, error: Exception, timeout_s: float) -> None:
        """Count a handshake that failed, and log it. `timeout_s`: the time that it had."""
        why = _why(error, timeout_s)
        self._failed.mark()
        self._refused.add(self._listener, host, why, time.time())
        _log.warning("TLS handshake failed", peer=host, why=why)


class _Turn:
    """Gives a place back once, however often it is told to end."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns, self._is_over = turns, False

    def end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._turns.release()


async def _sent_something(client: socket.socket) -> None:
    """Wait for the first byte without taking it."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(client, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(client)
    if not client.recv(1, socket.MSG_PEEK):
        raise asyncio.IncompleteReadError(b"", 1)


def _why(error: Exception, timeout_s: float) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted: {error.verify_message}"
        case ssl.SSLEOFError():
            return _LEFT
        case ssl.SSLError():
            reason = error.reason or str(error)
            return _REASONS.get(reason, f"TLS: {reason.lower().replace('_', ' ')}")
        case TimeoutError() | ConnectionAbortedError():
            return f"not done within {timeout_s:g} s"
        case _:
            return _LEFT
