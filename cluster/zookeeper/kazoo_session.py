"""Runs one ZooKeeper session on one kazoo client.

kazoo delivers watches, completions and state changes on three threads, so that their order is lost; it drops its
watches when the connection breaks; it opens a new session when one has expired; and it pings from its own thread, so
that a blocked program keeps its session. Here everything is delivered by the connection's thread, in the order
received; watches are restored on reconnection; an expired session ends the client; and a guard closes the session when
the event loop is blocked.
"""

import logging
import socket
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.serialization import Close
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from cluster.model.errors import SessionExpiredError
from cluster.sasl.mechanisms import GSSAPI
from cluster.zookeeper.armed_watches import Watches
from cluster.zookeeper.kazoo_connection import KAZOO_LOGGER, Handler, LimitedConnection, SubtreeEvent
from cluster.zookeeper.kazoo_requests import LostAnswer, Request
from cluster.zookeeper.kazoo_tls import TlsSockets
from cluster.zookeeper.login import Credentials, Scheme
from cluster.zookeeper.port import SessionEvent, SessionState, WatchEvent

logger = logging.getLogger(__name__)


class Exchange:
    """Holds requests that are sent together; delivered when the last of them has its outcome."""

    __slots__ = ("missing", "requests")

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests, self.missing = requests, len(requests)


Delivery = Exchange | WatchEvent | SubtreeEvent | SessionEvent


class Completion:
    """Takes the failure of a request in an exchange without a response; kazoo calls it."""

    __slots__ = ("_session", "exchange", "request")

    def __init__(self, session: "Session", exchange: Exchange, request: Request) -> None:
        self._session, self.exchange, self.request = session, exchange, request

    def set_exception(self, error: Exception) -> None:
        lost = isinstance(error, ConnectionLoss)
        self.request.outcome = (
            LostAnswer(sent=self.request.sent_at is not None) if lost else SessionExpiredError("the session is over")
        )
        self._session.count_down(self.exchange)


def _digest_of(credentials: Credentials | None) -> list[tuple[str, str]]:
    if credentials is None or credentials.scheme is not Scheme.DIGEST:
        return []
    return [("digest", f"{credentials.username}:{credentials.password.reveal()}")]


def _sasl_options(credentials: Credentials | None) -> dict[str, str] | None:
    if credentials is None or credentials.scheme is not Scheme.SASL:
        return None
    if credentials.kerberos is not None:
        return {"mechanism": GSSAPI}
    return {"mechanism": "DIGEST-MD5", "username": credentials.username, "password": credentials.password.reveal()}


class Session(KazooClient):  # type: ignore[misc] # kazoo is not typed.
    """Controls one session from its opening to its end; another session needs another object.

    `on_delivery` is called on the connection's thread, in order; unless the session was closed, its last delivery is a
    SessionEvent EXPIRED or AUTH_FAILED. `beat` must be called by the event loop several times per session timeout.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        max_in_flight: int,
        on_delivery: Callable[["Session", Delivery], None],
        *,
        credentials: Credentials | None = None,
        tls: TlsSockets | None = None,
    ) -> None:
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            auth_data=_digest_of(credentials),
            handler=Handler(hosts.count(",") + 1, tls),
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=1.0),
            logger=KAZOO_LOGGER,
        )
        self._connection = LimitedConnection(
            self,
            self._conn_retry.copy(),
            max_in_flight,
            _sasl_options(credentials),
            None if credentials is None else credentials.kerberos,
        )
        self._on_delivery = on_delivery
        self._over = threading.Event()
        self._last_beat = monotonic()
        self.granted_timeout_seconds = session_timeout_ms / 1000
        self.watches = Watches()
        self._is_usable = False
        self._highest_zxid = 0

    @property
    def highest_zxid(self) -> int:
        """The highest zxid seen; kazoo forgets its own when the session ends."""
        highest: int = max(self._highest_zxid, self.last_zxid)
        return highest

    def open(self) -> None:
        """Start to connect; returns at once."""
        self.start_async()
        threading.Thread(target=self._guard, name="zookeeper-zombie-guard", daemon=True).start()

    def shut(self, timeout_seconds: float) -> None:
        """Close the session and end the thread. Blocks; nothing is delivered afterwards."""
        self._over.set()
        self._ask_to_close()
        if not self._connection.connection_stopped.wait(timeout_seconds):
            self._cut()
        self.handler.stop()
        # A thread that still waits for an unreachable host is abandoned: it ends and releases its sockets by itself.
        if self._connection.connection_stopped.wait(timeout_seconds):
            self._connection.stop()
            self.close()

    def beat(self) -> None:
        """Note that the event loop is responsive."""
        self._last_beat = monotonic()

    def send(self, exchange: Exchange) -> None:
        """Queue the requests; sent in order once there is a connection and capacity. Thread-safe."""
        self._queue.extend((request, Completion(self, exchange, request)) for request in exchange.requests)
        self._wake()

    def count_down(self, exchange: Exchange) -> None:
        exchange.missing -= 1
        if exchange.missing == 0:
            self.deliver(exchange)

    def deliver(self, delivery: Delivery) -> None:
        self._on_delivery(self, delivery)

    def begin(self) -> None:
        """Send requests from now on: the connection is established and authenticated."""
        self._is_usable = True
        if not self._over.is_set():
            self._arm_again()
            self.deliver(SessionEvent(SessionState.CONNECTED, self._session_id))

    def _session_callback(self, state: Any) -> None:
        was_usable, session_id = self._is_usable, self._session_id
        self._highest_zxid = self.highest_zxid
        self._is_usable = False
        super()._session_callback(state)
        if self._over.is_set():
            return
        if state == KeeperState.AUTH_FAILED:
            self._end(SessionState.AUTH_FAILED, session_id)
        elif state in (KeeperState.EXPIRED_SESSION, KeeperState.CLOSED):
            self._end(SessionState.EXPIRED, session_id)
        elif was_usable:
            self.deliver(SessionEvent(SessionState.DISCONNECTED, session_id))

    def _end(self, state: SessionState, session_id: int | None) -> None:
        self._over.set()
        # Otherwise kazoo would open another session by itself.
        self._stopped.set()
        self.deliver(SessionEvent(state, 0 if session_id is None else session_id))

    def _arm_again(self) -> None:
        """Restore the watches before any queued request, so that no response can overtake a notification."""
        for request in reversed(list(self.watches.requests(self.last_zxid))):
            # The response is ignored and its loss is harmless: the next connection restores all watches again.
            self._queue.appendleft((request, None))
        self._wake()

    def _wake(self) -> None:
        write_socket = self._connection._write_sock
        if write_socket is not None:
            try:
                write_socket.send(b"\0", socket.MSG_DONTWAIT)
            except OSError:
                # Either full of unread wake-ups, or closed with the session.
                return

    def _guard(self) -> None:
        """Close the session if the event loop was blocked for one session timeout.

        A blocked program must lose its session as a dead one does, so that others can take over, but kazoo's thread
        would continue to ping for it. This runs in a thread because the event loop is what may be blocked.
        """
        while not self._over.wait(self.granted_timeout_seconds / 10):
            silence = monotonic() - self._last_beat
            if silence > self.granted_timeout_seconds:
                logger.error("Event loop blocked for %.1f s; closing the ZooKeeper session", silence)
                self._ask_to_close()
                return

    def _ask_to_close(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            self._queue.append((Close(), None))
            self._wake()

    def _cut(self) -> None:
        """Close the connection if it is open, so that its thread stops."""
        connected = self._connection._socket
        if connected is not None:
            try:
                connected.shutdown(socket.SHUT_RDWR)
            except OSError:
                return
