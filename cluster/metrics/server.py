"""Serves metrics to Prometheus and the health of the process over HTTP, on a few threads however many connect.

Connections are few and short: each is for one request, which has a deadline, its response included.
When there are too many the one that has waited longest with its request is closed for the new one, or if all others
have sent theirs, the oldest.
"""

import gzip
import io
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import structlog
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from cluster.config.config import host_and_port
from cluster.metrics.health import RUNNING, Health, HealthCheck
from cluster.metrics.process import expose_process
from cluster.metrics.registry import Metrics
from cluster.model.errors import StartupError
from cluster.tls.contexts import server_context
from cluster.tls.live import ListenerTls, LiveContexts

CONNECTIONS_MAX: Final = 16
"""Each has a thread, and a response in memory."""
_PAUSE_S: Final = 1.0
"""Before the next attempt to accept a connection for which there was no descriptor."""
_POLL_S: Final = 0.2
"""How often deadlines are looked at."""
PATH: Final = "/metrics"
HEALTH_PATH: Final = "/healthz"
"""Whether the process does its part: 200 or 503, and the state as text."""
LIVE_PATH: Final = "/livez"
"""Whether its event loop runs: what a restart can mend. Losing ZooKeeper is not among it."""
_BACKLOG: Final = 128
_REQUEST_BYTES_MAX: Final = 16 << 10
_TIMEOUT_S: Final = 60.0
_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}

_log = structlog.stdlib.get_logger()


class MetricsServer(ThreadingHTTPServer):
    """Serves at a socket that listens. `timeout_s`: from the begin of a connection to the end of its response."""

    daemon_threads = True

    def __init__(
        self,
        listener: socket.socket,
        registry: CollectorRegistry,
        health: HealthCheck | None,
        timeout_s: float,
        *,
        tls: LiveContexts | None = None,
    ) -> None:
        # Bound by the caller: this class would ask DNS for the name of the host.
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.registry, self.health = registry, health
        self.encoding = threading.Lock()
        """Metrics are encoded one response after the other, so that the event loop competes with one thread only."""
        self._timeout_s, self._tls = timeout_s, tls
        self._changed = threading.Condition()
        self._open: dict[socket.socket, float] = {}
        """The deadline of each connection that has a thread, the oldest first."""
        self._waiting: dict[socket.socket, None] = {}
        """Those whose request has not arrived, the oldest first."""
        self._has_failed = False

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; for want of descriptors, fail after a pause."""
        try:
            accepted = super().get_request()
        except OSError as error:
            if not self._has_failed:
                _log.warning("Metrics connections cannot be accepted", error=str(error))
            self._has_failed = True
            time.sleep(_PAUSE_S)
            raise
        self._has_failed = False
        if self._tls is None:
            return accepted
        connection, peer = accepted
        # The handshake is for the thread of the connection, whose deadline holds for it as well.
        return self._tls.current().wrap_socket(connection, server_side=True, do_handshake_on_connect=False), peer

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread, in place of another one if there are too many: a health check gets in."""
        with self._changed:
            if len(self._open) >= CONNECTIONS_MAX:
                _end(next(iter(self._waiting or self._open)))
                self._changed.wait_for(lambda: len(self._open) < CONNECTIONS_MAX)
            self._open[request] = time.monotonic() + self._timeout_s
            self._waiting[request] = None
        super().process_request(request, client_address)

    def request_arrived(self, connection: socket.socket) -> None:
        with self._changed:
            del self._waiting[connection]

    def service_actions(self) -> None:
        """End what takes too long."""
        with self._changed:
            for connection, deadline in self._open.items():
                if deadline < time.monotonic():
                    _end(connection)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, at the end of its thread."""
        super().shutdown_request(request)
        with self._changed:
            del self._open[request]
            self._waiting.pop(request, None)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong, unless the connection was closed meanwhile."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("Metrics request failed", peer=client_address)

    def stop(self) -> None:
        """Close the port and all connections."""
        self.shutdown()
        self.server_close()
        with self._changed:
            for connection in self._open:
                _end(connection)


def _end(connection: socket.socket) -> None:
    """Wake the thread that reads or writes, which then closes the connection."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Head(io.BufferedReader):
    """What a connection sends, up to the size that the head of a request may have."""

    _left = _REQUEST_BYTES_MAX

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise ConnectionAbortedError
        return line


class _Handler(BaseHTTPRequestHandler):
    """Answers the request of one connection."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # Of a line that names none; 0.9 would get no status.
    server: MetricsServer

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()
        self.rfile = _Head(self.request.makefile("rb", 0), _REQUEST_BYTES_MAX)

    def do_GET(self) -> None:
        """Answer any method."""
        self.server.request_arrived(self.request)
        path = self.path.partition("?")[0]
        if path in (HEALTH_PATH, LIVE_PATH):
            # Not behind scrapes: it is small, and whoever reads a scrape slowly must not make us look ill.
            self._send_health(path)
        elif path != PATH:
            where = f"nothing is here; metrics are at {PATH}, health is at {HEALTH_PATH}\n"
            self._send(HTTPStatus.NOT_FOUND, where.encode())
        elif self.command not in ("GET", "HEAD"):
            self._send(HTTPStatus.METHOD_NOT_ALLOWED, f"{PATH} answers GET and HEAD\n".encode())
        else:
            self._send_metrics()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET  # noqa: N815 - the base class's names.

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _send_health(self, path: str) -> None:
        health: Health = RUNNING if self.server.health is None else self.server.health.ask()
        is_well = health.is_alive if path == LIVE_PATH else health.is_healthy
        self._send(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, f"{health.state}\n".encode())

    def _send_metrics(self) -> None:
        try:
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        except (TypeError, ValueError):
            encode, content_type = choose_encoder("")  # A version that is no number.
        with self.server.encoding:
            body, fields = encode(self.server.registry), {"Content-Type": content_type}
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body, fields = gzip.compress(body, compresslevel=1), {**fields, "Content-Encoding": "gzip"}
        self._send(HTTPStatus.OK, body, fields)

    def _send(self, status: HTTPStatus, body: bytes, fields: Mapping[str, str] = _TEXT) -> None:
        # With the date, by which `klamm doctor` compares clocks.
        self.send_response(status)
        for name, value in {**fields, "Content-Length": str(len(body)), "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def serve_metrics(
    metrics: Metrics,
    listen: str,
    health: HealthCheck | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
    tls: ListenerTls | None = None,
) -> tuple[str, Callable[[], None]]:
    """Serve metrics at `/metrics` and health at `/healthz`; returns the bound address and a function to stop it.

    `health`: None for a process without an event loop, of which it is only known that it runs. `tls` None: plaintext.
    Raises StartupError if the address cannot be bound.
    """
    host, port = host_and_port(listen)
    registry = CollectorRegistry()
    registry.register(metrics)
    expose_process(metrics)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host or "0.0.0.0", port), family=family, backlog=_BACKLOG)  # noqa: S104 - compared with, or asked for by the operator.
    except OSError as error:
        raise StartupError(f"cannot serve metrics on {listen}: {error.strerror}") from error
    server = MetricsServer(listener, registry, health, timeout_s, tls=None if tls is None else _contexts(tls))
    threading.Thread(target=server.serve_forever, args=(_POLL_S,), name="metrics", daemon=True).start()
    return f"{host}:{listener.getsockname()[1]}", server.stop


def _contexts(tls: ListenerTls) -> LiveContexts:
    auth = "required" if tls.requires_certificates else "none"
    return LiveContexts(tls.material, partial(server_context, replace(tls.material.settings, client_auth=auth)))
