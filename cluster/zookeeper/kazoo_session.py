"""One ZooKeeper session on one kazoo client: everything that runs on kazoo's connection thread.

kazoo gives watches, completions and state changes to three different threads, so their order is lost; it forgets
its watches when the connection breaks; it opens a new session by itself when one expired; and it pings from its own
thread, so that a program which no longer does anything keeps its session for ever. Here all that happens is passed
on by the connection's own thread, in the order of the wire; watches are armed again on reconnection; an expired
session ends the client; and a guard closes the session when the event loop shows no sign of life.
"""

import logging
import socket
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, ConnectionLoss
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.serialization import SASL, Close, Watch
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from puresasl import SASLError, SASLProtocolException
from puresasl.client import SASLClient

from cluster.errors import SessionExpiredError
from cluster.zookeeper.armed_watches import Watches
from cluster.zookeeper.kazoo_requests import (
    NO_NODE,
    UNIMPLEMENTED,
    ErrorAnswer,
    LostAnswer,
    Request,
)
from cluster.zookeeper.login import Credentials, Scheme
from cluster.zookeeper.port import SessionEvent, SessionState, WatchEvent, WatchKind

logger = logging.getLogger(__name__)
# The listener hears of every change of the connection; kazoo would log each of them three times.
_kazoo_logger: Final = logging.getLogger("kazoo.klamm")
_kazoo_logger.setLevel(logging.ERROR)

RECEIVE_BYTES: Final = 256 * 1024

_EVENT_KINDS: Final = {1: WatchKind.CREATED, 2: WatchKind.DELETED, 3: WatchKind.CHANGED, 4: WatchKind.CHILDREN}


class Exchange:
    """Requests that were sent together; passed on when the last of them has its outcome."""

    __slots__ = ("missing", "requests")

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests, self.missing = requests, len(requests)


Delivery = Exchange | WatchEvent | SessionEvent


class Completion:
    """What kazoo calls when a request of an exchange fails without an answer."""

    __slots__ = ("_session", "exchange", "request")

    def __init__(self, session: "Session", exchange: Exchange, request: Request) -> None:
        self._session, self.exchange, self.request = session, exchange, request

    def set_exception(self, error: Exception) -> None:
        lost = isinstance(error, ConnectionLoss)
        self.request.outcome = (
            LostAnswer(sent=self.request.sent_at is not None) if lost else SessionExpiredError("the session is over")
        )
        self._session.count_down(self.exchange)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo is not typed.
    """kazoo's sockets, with a fair share of time for each address.

    kazoo waits a whole session timeout for every connection, so one dead server of three would cost the session.
    """

    def __init__(self, addresses: int) -> None:
        super().__init__()
        self._addresses = addresses

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> Any:
        return super().create_connection(*args, timeout=timeout / self._addresses, **options)


class _Connection(ConnectionHandler):  # type: ignore[misc] # kazoo is not typed.
    """kazoo's connection with a bound on requests in flight, and with answers handed on by this thread."""

    client: "Session"
    _xid: int

    def __init__(self, client: "Session", retry: Any, max_in_flight: int, sasl: dict[str, str] | None) -> None:
        super().__init__(client, retry, logger=_kazoo_logger, sasl_options=sasl)
        self._max_in_flight = max_in_flight
        self._received = bytearray()
        # How much of what was received has been handed out.
        self._taken = 0
        self._heard_at = monotonic()

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        self._received.clear()
        self._taken = 0
        # Returns when the session is there and authenticated.
        read_timeout, connect_timeout = super()._connect(host, hostip, port)
        # kazoo does not keep the timeout which the server granted; its read timeout is two thirds of it.
        self.client.granted_timeout_seconds = read_timeout / 1000 * 1.5
        self._heard_at = monotonic()
        self.client.begin()
        # kazoo pings after half of this, which is a twelfth of the session: somewhat more often than ZooKeeper's own
        # client. The server counts a session's time from what it heard last, and the last broker to die is the one
        # that may lead alone; it should be the last to expire too, and not whoever happened to ping last.
        return read_timeout / 4, connect_timeout

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Answer one challenge. kazoo would ask a server that does not know SASL over and over, without end."""
        sasl = SASLClient("zk-sasl-md5", service="zookeeper", **self.sasl_options)
        try:
            challenge = self._exchange_tokens(b"", timeout, xid=1)
            if not challenge:
                raise AuthFailedError("the server knows no SASL users")
            sasl.process(self._exchange_tokens(sasl.process(challenge), timeout, xid=2))
        except (SASLError, SASLProtocolException, ConnectionDropped) as error:
            # ZooKeeper hangs up on whom it does not believe.
            raise AuthFailedError(str(error)) from error
        if not sasl.complete:
            raise AuthFailedError("the server did not prove that it knows the password")

    def _exchange_tokens(self, token: bytes, timeout: float, xid: int) -> bytes:
        self._submit(SASL(token), timeout, xid)
        header, buffer, offset = self._read_header(timeout)
        if header.err:
            raise AuthFailedError(f"error {header.err}")
        answer: bytes = SASL.deserialize(buffer, offset)[0]
        return answer

    def _send_ping(self, connect_timeout: float) -> None:
        super()._send_ping(connect_timeout)
        # kazoo drops the connection when a ping is due and the one before is unanswered. At this pace that would take
        # a server that is busy for a second for a dead one.
        if monotonic() - self._heard_at < self.client.granted_timeout_seconds / 3:
            self.ping_outstanding.clear()

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        # One byte may stand for many requests and many bytes for none: they only wake this thread.
        self._read_sock.recv(65536)
        self._fill(connect_timeout)

    def _read_socket(self, read_timeout: float) -> Any:
        """Handle every answer that has arrived whole; kazoo's selector sees only the socket, not our buffer.

        `read_timeout` is only the pace of the pings; an answer that has begun to arrive is waited for longer.
        """
        patience = self.client.granted_timeout_seconds / 3
        while True:
            response = super()._read_socket(patience)
            self._fill(patience)
            if response == CLOSE_RESPONSE or not self._has_whole_frame():
                return response

    def _read(self, length: int, timeout: float) -> bytes:
        """Exactly `length` bytes, taken from the socket in pieces as large as they come."""
        with self._socket_error_handling():
            while len(self._received) - self._taken < length:
                self._receive(timeout)
        start, self._taken = self._taken, self._taken + length
        return bytes(self._received[start : self._taken])

    def _receive(self, timeout: float) -> None:
        del self._received[: self._taken]
        self._taken = 0
        try:
            chunk = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            if not self.handler.select([self._socket], [], [], timeout)[0]:
                raise self.handler.timeout_exception("socket time-out during read") from None
            return
        if not chunk:
            raise ConnectionDropped("socket connection broken")
        self._heard_at = monotonic()
        self._received += chunk

    def _has_whole_frame(self) -> bool:
        there = len(self._received) - self._taken
        return there >= 4 and there >= 4 + int.from_bytes(self._received[self._taken : self._taken + 4])

    def _fill(self, timeout: float) -> None:
        queue, pending = self.client._queue, self.client._pending
        while queue and len(pending) < self._max_in_flight:
            request, completion = queue[0]
            self._xid = self._xid % 0x7FFFFFFF + 1
            if completion is not None:
                request.sent_at = monotonic()
            self._submit(request, timeout, self._xid)
            queue.popleft()
            pending.append((request, completion, self._xid))

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        client = self.client
        request, completion = self._answered_by(header)
        if isinstance(request, Close):
            return CLOSE_RESPONSE
        if completion is None:
            # Watches put back. This answer must not count as the last thing seen: if the connection breaks before
            # all of them are back, the others must still be told of what happened since the earlier break.
            return None
        if header.zxid > 0:
            client.last_zxid = header.zxid
        request.answered_at = monotonic()
        request.outcome = ErrorAnswer(header.err) if header.err else _decode(request, buffer, offset)
        if not header.err or header.err == NO_NODE:
            client.watches.answered(request, request.outcome)
        client.count_down(completion.exchange)
        return None

    def _answered_by(self, header: Any) -> tuple[Any, Any]:
        """The request and its completion: the oldest one, but for a kind that the server refuses out of its turn."""
        pending = self.client._pending
        if header.err == UNIMPLEMENTED:
            position = next(number for number, (_, _, xid) in enumerate(pending) if xid == header.xid)
        else:
            position = 0
            assert header.xid == pending[0][2], f"answer {header.xid} where {pending[0][2]} was due"
        request, completion, _ = pending[position]
        del pending[position]
        return request, completion

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        kind = _EVENT_KINDS[event.type]
        if self.client.watches.fired(event.path, kind):
            self.client.deliver(WatchEvent(event.path, kind))


def _digest_of(credentials: Credentials | None) -> list[tuple[str, str]]:
    if credentials is None or credentials.scheme is not Scheme.DIGEST:
        return []
    return [("digest", f"{credentials.username}:{credentials.password}")]


def _sasl_options(credentials: Credentials | None) -> dict[str, str] | None:
    if credentials is None or credentials.scheme is not Scheme.SASL:
        return None
    return {"mechanism": "DIGEST-MD5", "username": credentials.username, "password": credentials.password}


def _decode(request: Request, buffer: bytes, offset: int) -> Any:
    try:
        return request.deserialize(buffer, offset)
    except Exception as error:
        logger.exception("Undecodable answer of ZooKeeper")
        return error


class Session(KazooClient):  # type: ignore[misc] # kazoo is not typed.
    """One session from its opening to its end; another session needs another object.

    `on_delivery` is called on the connection's thread, with everything in order; the last delivery of a session
    that was not closed on purpose is a SessionEvent EXPIRED or AUTH_FAILED. `beat` must be called by the event
    loop several times per session timeout.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        max_in_flight: int,
        on_delivery: Callable[["Session", Delivery], None],
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            auth_data=_digest_of(credentials),
            handler=_Handler(addresses=hosts.count(",") + 1),
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=1.0),
            logger=_kazoo_logger,
        )
        self._connection = _Connection(self, self._conn_retry.copy(), max_in_flight, _sasl_options(credentials))
        self._on_delivery = on_delivery
        self._over = threading.Event()
        self._last_beat = monotonic()
        self.granted_timeout_seconds = session_timeout_ms / 1000
        self.watches = Watches()
        self._is_usable = False

    def open(self) -> None:
        """Begin to connect; returns at once."""
        self.start_async()
        threading.Thread(target=self._guard, name="zookeeper-zombie-guard", daemon=True).start()

    def shut(self, patience_seconds: float) -> None:
        """Close the session and end the thread. Blocks; nothing is delivered any more."""
        self._over.set()
        self._ask_to_close()
        if not self._connection.connection_stopped.wait(patience_seconds):
            self._cut()
        self.handler.stop()
        # A thread that still waits for an unreachable host is left behind: it ends, and frees its sockets, by itself.
        if self._connection.connection_stopped.wait(patience_seconds):
            self._connection.stop()
            self.close()

    def beat(self) -> None:
        """The event loop is alive."""
        self._last_beat = monotonic()

    def send(self, exchange: Exchange) -> None:
        """Queue the requests; they leave in order as soon as there is a connection and room. Any thread."""
        self._queue.extend((request, Completion(self, exchange, request)) for request in exchange.requests)
        self._wake()

    def count_down(self, exchange: Exchange) -> None:
        exchange.missing -= 1
        if exchange.missing == 0:
            self.deliver(exchange)

    def deliver(self, delivery: Delivery) -> None:
        self._on_delivery(self, delivery)

    def begin(self) -> None:
        """The connection stands and its user is proven: from here on requests are sent."""
        self._is_usable = True
        if not self._over.is_set():
            self._arm_again()
            self.deliver(SessionEvent(SessionState.CONNECTED, self._session_id))

    def _session_callback(self, state: Any) -> None:
        was_usable, session_id = self._is_usable, self._session_id
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
        # Without this kazoo would open another session by itself.
        self._stopped.set()
        self.deliver(SessionEvent(state, 0 if session_id is None else session_id))

    def _arm_again(self) -> None:
        """Put the watches back before any queued request, so that no answer can overtake a notification."""
        for request in reversed(list(self.watches.requests(self.last_zxid))):
            # Nobody waits for the answer, and a loss of it needs no care: the next connection arms them all again.
            self._queue.appendleft((request, None))
        self._wake()

    def _wake(self) -> None:
        write_socket = self._connection._write_sock
        if write_socket is not None:
            try:
                write_socket.send(b"\0", socket.MSG_DONTWAIT)
            except OSError:
                # Either full of wake-up calls that are still unread, or closed with the session.
                return

    def _guard(self) -> None:
        """End the session when the event loop gave no sign of life for one session timeout.

        The rest of the cluster must be able to take over from a program that is stuck, and kazoo would go on pinging.
        """
        while not self._over.wait(self.granted_timeout_seconds / 10):
            silence = monotonic() - self._last_beat
            if silence > self.granted_timeout_seconds:
                logger.error("The event loop was stuck for %.1f s: closing the ZooKeeper session", silence)
                self._ask_to_close()
                return

    def _ask_to_close(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            self._queue.append((Close(), None))
            self._wake()

    def _cut(self) -> None:
        """Break the connection if it is still there, which makes the thread notice that it is to stop."""
        connected = self._connection._socket
        if connected is not None:
            try:
                connected.shutdown(socket.SHUT_RDWR)
            except OSError:
                return
