"""Connects to the servers through kazoo: sockets, authentication, sending requests and reading responses.

Everything runs on the connection's own thread, which passes it on in the order received.
"""

import logging
import ssl
from collections import deque
from contextlib import nullcontext
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, Final, Protocol

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import CLOSE_RESPONSE, PING_XID, ConnectionHandler
from kazoo.protocol.serialization import SASL, Close, Ping, Watch
from msgspec import Struct
from puresasl import SASLError, SASLProtocolException
from puresasl.client import SASLClient

from cluster.model.errors import ConfigError
from cluster.sasl.gssapi import GssapiClientExchange
from cluster.sasl.kerberos import KerberosLogin, begin_as_client
from cluster.zookeeper.armed_watches import Watches
from cluster.zookeeper.kazoo_requests import (
    NO_NODE,
    NO_WATCHER,
    UNIMPLEMENTED,
    ErrorAnswer,
    Exists,
    GetChildren,
    Request,
    SetWatches,
)
from cluster.zookeeper.kazoo_tls import TlsSockets
from cluster.zookeeper.port import WatchEvent, WatchKind

logger = logging.getLogger(__name__)
# The listener gets every connection change; kazoo would log each of them three times.
KAZOO_LOGGER: Final = logging.getLogger("kazoo.klamm")
KAZOO_LOGGER.setLevel(logging.ERROR)

RECEIVE_BYTES: Final = 256 * 1024
CLOSE_XID: Final = 1
ATTEMPTS_MIN: Final = 2
"""The number of connection attempts within a session timeout, even with one address: its server may be starting."""

_EVENT_KINDS: Final = {1: WatchKind.CREATED, 2: WatchKind.DELETED, 3: WatchKind.CHANGED, 4: WatchKind.CHILDREN}


class SubtreeEvent(Struct, frozen=True, gc=False):
    """A znode in a watched subtree has changed."""

    change: WatchEvent


class _NotYetError(Exception):
    """Nothing has arrived."""


class ConnectionOwner(Protocol):
    """Stands for the session of a connection, which has kazoo's queues and receives what arrives."""

    granted_timeout_seconds: float
    last_zxid: int
    _session_timeout: int
    watches: Watches
    handler: "Handler"
    _queue: deque[Any]
    _pending: deque[Any]

    def begin(self) -> None: ...

    def count_down(self, exchange: Any) -> None: ...

    def deliver(self, delivery: Any) -> None: ...


class Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo is not typed.
    """Opens kazoo's sockets, with a share of the session timeout for each address.

    kazoo waits a whole session timeout for each connection, so one dead server of three would cost the session.
    """

    def __init__(self, addresses: int, tls: TlsSockets | None = None) -> None:
        super().__init__()
        self._attempts, self.tls = max(addresses, ATTEMPTS_MIN), tls

    def create_connection(self, *, address: tuple[str, int], hostname: str, timeout: float, **options: Any) -> Any:
        if self.tls is not None:
            return self.tls.connect(address, hostname, timeout / self._attempts)
        return super().create_connection(
            address=address, hostname=hostname, timeout=timeout / self._attempts, **options
        )


class LimitedConnection(ConnectionHandler):  # type: ignore[misc] # kazoo is not typed.
    """Limits the requests in flight of kazoo's connection; responses are passed on by this thread."""

    client: ConnectionOwner
    _xid: int

    def __init__(
        self,
        client: ConnectionOwner,
        retry: Any,
        max_in_flight: int,
        sasl: dict[str, str] | None,
        kerberos: KerberosLogin | None = None,
    ) -> None:
        super().__init__(client, retry, logger=KAZOO_LOGGER, sasl_options=sasl)
        self._kerberos = kerberos
        self._max_in_flight, self._tls = max_in_flight, client.handler.tls
        self._received = bytearray()
        # Number of received bytes already processed.
        self._taken = 0
        self._received_at = monotonic()

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        # Returns once the session is established and authenticated.
        try:
            read_timeout, connect_timeout = self._shake_hands(host, hostip, port)
        except ConnectionDropped:
            was_refused = self._socket is not None and self.client.last_zxid > 0
            if not was_refused or monotonic() - self._received_at <= self.client.granted_timeout_seconds:
                raise
            read_timeout, connect_timeout = self._connect_without_zxid(host, hostip, port)
        # kazoo does not store the timeout granted by the server; its read timeout is two thirds of it.
        self.client.granted_timeout_seconds = read_timeout / 1000 * 1.5
        self._received_at = monotonic()
        if self._tls is not None:
            self._tls.established()
        self.client.begin()
        # kazoo pings after half of this, a twelfth of the session timeout: somewhat more often than ZooKeeper's own
        # client. The server counts a session's time from the last message. The last broker to die is the one that may
        # lead alone, so its session should expire last, whichever broker pinged last.
        return read_timeout / 4, connect_timeout

    def _shake_hands(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        self._received.clear()
        self._taken = 0
        timeouts: tuple[float, float] = super()._connect(host, hostip, port)
        return timeouts

    def _connect_without_zxid(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        """Connect to a server that refused the handshake, without naming the zxid seen last; called when the session
        should have expired.

        A server whose last zxid is lower closes the connection without a response, for ever if it was restored from a
        backup. So does one that has no quorum yet; it refuses this attempt, too, and its sessions continue. A restored
        server does not know the session, or it is closed here: what this client has seen no longer exists.
        """
        self._socket.close()
        seen, self.client.last_zxid = self.client.last_zxid, 0
        try:
            timeouts = self._shake_hands(host, hostip, port)
            known = self._invoke(timeouts[1] / 1000, Ping(), PING_XID) or 0
        finally:
            self.client.last_zxid = seen
        if known < seen:
            logger.error(
                "ZooKeeper at %s:%s is at zxid 0x%x, but 0x%x was seen before: it was restored from a backup; "
                "opening a new session",
                host,
                port,
                known,
                seen,
            )
            self._submit(Close(), timeouts[1] / 1000, CLOSE_XID)
            raise SessionExpiredError("ZooKeeper was restored from a backup")
        return timeouts

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Establish the session or authenticate; with a timeout, as a starting server may accept and never respond."""
        return super()._invoke(min(timeout, self.client._session_timeout / 1000 / ATTEMPTS_MIN), request, xid)

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Respond to one challenge. kazoo would retry endlessly with a server that does not support SASL, and speaks
        GSSAPI by a library of its own.
        """
        if self._kerberos is not None:
            self._authenticate_by_kerberos(self._kerberos, host, timeout)
            return
        sasl = SASLClient("zk-sasl-md5", service="zookeeper", **self.sasl_options)
        try:
            challenge = self._exchange_tokens(b"", timeout, xid=1)
            if not challenge:
                raise AuthFailedError("the server knows no SASL users")
            sasl.process(self._exchange_tokens(sasl.process(challenge), timeout, xid=2))
        except (SASLError, SASLProtocolException, ConnectionDropped) as error:
            # ZooKeeper closes the connection if the authentication fails.
            raise AuthFailedError(str(error)) from error
        if not sasl.complete:
            raise AuthFailedError("the server did not prove that it knows the password")

    def _authenticate_by_kerberos(self, login: KerberosLogin, host: str, timeout: float) -> None:
        exchange, challenge = GssapiClientExchange(partial(begin_as_client, login, host)), b""
        try:
            for xid in count(1):
                token = exchange.step(challenge)
                if token is None:
                    return
                challenge = self._exchange_tokens(token, timeout, xid) or b""
        except (ConfigError, ConnectionDropped) as error:
            logger.error("ZooKeeper at %s: authentication as %s failed: %s", host, login.principal, error)
            raise AuthFailedError(str(error)) from error

    def _exchange_tokens(self, token: bytes, timeout: float, xid: int) -> bytes:
        self._submit(SASL(token), timeout, xid)
        header, buffer, offset = self._read_header(timeout)
        if header.err:
            raise AuthFailedError(f"error {header.err}")
        answer: bytes = SASL.deserialize(buffer, offset)[0]
        return answer

    def _send_ping(self, connect_timeout: float) -> None:
        super()._send_ping(connect_timeout)
        # kazoo drops the connection when a ping is due and the previous one is unanswered. At this interval it would
        # take a server that is busy for a second for dead.
        if monotonic() - self._received_at < self.client.granted_timeout_seconds / 3:
            self.ping_outstanding.clear()

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        # Bytes do not correspond to requests: they only wake this thread.
        self._read_sock.recv(65536)
        self._fill(connect_timeout)

    def _read_socket(self, read_timeout: float) -> Any:
        """Process every complete response; kazoo's selector sees only the socket, not our buffer.

        `read_timeout` is only the ping interval; an incomplete response is waited for longer.
        """
        timeout = self.client.granted_timeout_seconds / 3
        if self._tls is not None and len(self._received) == self._taken and not self._receive_at_once():
            # What arrived was TLS's own; to wait for more would keep requests from being sent.
            return None
        while True:
            response = super()._read_socket(timeout)
            self._fill(timeout)
            if response == CLOSE_RESPONSE or not self._has_whole_frame():
                return response

    def _read(self, length: int, timeout: float) -> bytes:
        """Read exactly `length` bytes from the socket, in chunks as they arrive."""
        with self._socket_error_handling():
            while len(self._received) - self._taken < length:
                self._receive(timeout)
        start, self._taken = self._taken, self._taken + length
        return bytes(self._received[start : self._taken])

    def _receive(self, timeout: float) -> None:
        if self._receive_at_once():
            return
        if not self.handler.select([self._socket], [], [], timeout)[0]:
            raise self.handler.timeout_exception("socket time-out during read") from None

    def _receive_at_once(self) -> bool:
        """Take what has arrived; False if there is nothing.

        With TLS at most one record of 16 KiB is taken: OpenSSL reads no further, so kazoo's selector sees what is left.
        """
        del self._received[: self._taken]
        self._taken = 0
        try:
            with self._socket_error_handling(), nullcontext() if self._tls is None else self._tls.noting():
                chunk = self._socket_recv()
        except _NotYetError:
            return False
        if not chunk:
            raise ConnectionDropped("socket connection broken")
        self._received_at = monotonic()
        self._received += chunk
        return True

    def _socket_recv(self) -> bytes:
        try:
            received: bytes = self._socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            raise _NotYetError from None
        return received

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
            # Watches restored. This response must not update the last zxid: if the connection breaks before all of them
            # are restored, the others must still report changes since the earlier break.
            if header.err == UNIMPLEMENTED:
                # A server before 3.6, which closes the connection, too: do not ask the next one for the same.
                client.watches.subtrees.clear()
            return None
        if header.zxid > 0:
            client.last_zxid = header.zxid
        request.answered_at = monotonic()
        request.outcome = ErrorAnswer(header.err) if header.err else _decode(request, buffer, offset)
        if not header.err or header.err in {NO_NODE, NO_WATCHER}:
            client.watches.answered(request, request.outcome)
        client.count_down(completion.exchange)
        return None

    def _answered_by(self, header: Any) -> tuple[Any, Any]:
        """Find the request of a response and its completion: the oldest one, except for requests refused out of
        order.
        """
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
        watches = self.client.watches
        change = WatchEvent(event.path, kind)
        if watches.fired(event.path, kind, self._is_being_armed):
            self.client.deliver(change)
        if kind is not WatchKind.CHILDREN and watches.is_in_subtree(event.path):
            self.client.deliver(SubtreeEvent(change))

    def _is_being_armed(self, path: str) -> bool:
        """Whether a request that was sent and not answered arms a watch of one znode on this path."""
        requests = [request for request, completion, _ in self.client._pending if completion is not None]
        armed_here = (r.watched for r in requests if isinstance(r, Exists | GetChildren))
        armed_many = (paths for r in requests if isinstance(r, SetWatches) for paths in (r.data, r.exists))
        return any(path in paths for paths in (*armed_here, *armed_many))


def _decode(request: Request, buffer: bytes, offset: int) -> Any:
    try:
        return request.deserialize(buffer, offset)
    except Exception as error:
        logger.exception("Decoding a ZooKeeper response failed")
        return error
