"""Serves metrics to Prometheus and the health of the process over HTTP, on one thread however many connect.

Connections are few and short: each is for one request, which must arrive within a deadline, and so must its response.
When there are too many the one that has waited longest with its request is closed for the new one, or if all others
have sent theirs, the oldest.
"""

import asyncio
import gzip
import io
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import formatdate
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from typing import Any, Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from cluster.config.config import host_and_port
from cluster.metrics.health import RUNNING, Health, HealthCheck
from cluster.metrics.process import expose_process
from cluster.metrics.registry import Metrics
from cluster.model.errors import StartupError

CONNECTIONS_MAX: Final = 32
_PAUSE_S: Final = 1.0
"""Before the next attempt to accept a connection for which there was no descriptor."""
PATH: Final = "/metrics"
HEALTH_PATH: Final = "/healthz"
"""Whether the process does its part: 200 or 503, and the state as text."""
LIVE_PATH: Final = "/livez"
"""Whether its event loop runs: what a restart can mend. Losing ZooKeeper is not among it."""
_BACKLOG: Final = 128
_RESPONSES_AT_ONCE: Final = 4
"""Limit of responses in memory; others wait their turn."""
_TURN_TIMEOUT_S: Final = 3.0
"""How long a response waits for those before it; then the oldest of them, which nobody seems to read, is given up. Well
below the 10 s that Prometheus waits for a scrape."""
_REQUEST_BYTES_MAX: Final = 16 << 10
_REQUEST_TIMEOUT_S: Final = 10.0
_RESPONSE_TIMEOUT_S: Final = 60.0

_log = structlog.stdlib.get_logger()


class _Response(NamedTuple):
    status: HTTPStatus
    body: bytes
    headers: Mapping[str, str] = {"Content-Type": "text/plain; charset=utf-8"}

    def encode(self, *, with_body: bool) -> bytes:
        # With the date `klamm doctor` compares clocks.
        always = {"Date": formatdate(usegmt=True), "Content-Length": str(len(self.body)), "Connection": "close"}
        fields = {**self.headers, **always}
        lines = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            *(f"{k}: {v}" for k, v in fields.items()),
            "",
            "",
        ]
        return "\r\n".join(lines).encode("latin-1") + (self.body if with_body else b"")


class _Request(NamedTuple):
    method: str
    path: str
    headers: Any


class MetricsServer:
    """Runs on an event loop of its own. Times in seconds."""

    def __init__(
        self,
        registry: CollectorRegistry,
        request_timeout_s: float,
        response_timeout_s: float,
        health: HealthCheck | None = None,
    ) -> None:
        self._registry, self._health = registry, health
        self._request_timeout_s, self._response_timeout_s = request_timeout_s, response_timeout_s
        self._responding = asyncio.Semaphore(_RESPONSES_AT_ONCE)
        self._open: dict[asyncio.StreamWriter, None] = {}  # The oldest first.
        self._sending: dict[asyncio.StreamWriter, None] = {}  # Metrics, the oldest first.
        self._waiting: dict[asyncio.StreamWriter, None] = {}  # For their requests, the oldest first.

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled. Not by the event loop's own server, which for want of descriptors makes
        ever more attempts.
        """
        loop = asyncio.get_running_loop()
        has_failed = False
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
                await loop.connect_accepted_socket(self._new_protocol, client)
                has_failed = False
            except OSError as error:
                if not has_failed:
                    _log.warning("Metrics connections cannot be accepted", error=str(error))
                has_failed = True
                await asyncio.sleep(_PAUSE_S)

    def _new_protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_REQUEST_BYTES_MAX), self._handle)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, for one request."""
        if len(self._open) >= CONNECTIONS_MAX:
            self._close_oldest()
        self._open[writer] = self._waiting[writer] = None
        try:
            async with asyncio.timeout(self._request_timeout_s):
                head = await _read_head(reader)
            self._waiting.pop(writer, None)
            async with asyncio.timeout(self._response_timeout_s):
                request = _parse(head)
                if request is not None and request.path in (HEALTH_PATH, LIVE_PATH):
                    # Not behind scrapes: it is small, and whoever reads a scrape slowly must not make us look ill.
                    await _send(
                        writer, (await self._describe_health(request)).encode(with_body=request.method != "HEAD")
                    )
                    return
                async with self._turn(writer):
                    await _send(writer, self._respond(request))
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return  # It left, or is too slow.
        finally:
            writer.transport.abort()
            self._forget(writer)

    @asynccontextmanager
    async def _turn(self, writer: asyncio.StreamWriter) -> AsyncIterator[None]:
        """Wait for the turn of a response: only a few may be in memory at once."""
        while not await self._has_turn():
            pass
        self._sending[writer] = None
        try:
            yield
        finally:
            if writer in self._sending:  # Otherwise its turn is another's.
                del self._sending[writer]
                self._responding.release()

    async def _has_turn(self) -> bool:
        """Wait for a turn; in the end take that of the oldest, if there is one."""
        try:
            async with asyncio.timeout(_TURN_TIMEOUT_S):
                return await self._responding.acquire()
        except TimeoutError:
            oldest = next(iter(self._sending), None)
            if oldest is None:
                return False
            del self._sending[oldest]
            oldest.transport.abort()
            return True

    def _close_oldest(self) -> None:
        """Close the one that has waited longest with its request, else the oldest: a health check always gets in."""
        oldest = next(iter(self._waiting or self._open))
        self._forget(oldest)
        oldest.transport.abort()

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._waiting.pop(writer, None)
        self._open.pop(writer, None)

    async def _describe_health(self, request: _Request) -> _Response:
        health: Health = RUNNING if self._health is None else await self._health.ask()
        is_well = health.is_alive if request.path == LIVE_PATH else health.is_healthy
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        return _Response(status, f"{health.state}\n".encode())

    def _respond(self, request: _Request | None) -> bytes:
        if request is None:
            return _Response(HTTPStatus.BAD_REQUEST, b"this is no HTTP request\n").encode(with_body=True)
        return self._get(*request).encode(with_body=request.method != "HEAD")

    def _get(self, method: str, path: str, headers: Any) -> _Response:
        if path != PATH:
            where = f"nothing is here; metrics are at {PATH}, health is at {HEALTH_PATH}\n"
            return _Response(HTTPStatus.NOT_FOUND, where.encode())
        if method not in ("GET", "HEAD"):
            return _Response(HTTPStatus.METHOD_NOT_ALLOWED, f"{PATH} answers GET and HEAD\n".encode())
        try:
            encode, content_type = choose_encoder(headers.get("Accept", ""))
        except (TypeError, ValueError):
            encode, content_type = choose_encoder("")  # A version that is no number.
        body, fields = encode(self._registry), {"Content-Type": content_type}
        if "gzip" in headers.get("Accept-Encoding", ""):
            body, fields = gzip.compress(body, compresslevel=1), {**fields, "Content-Encoding": "gzip"}
        return _Response(HTTPStatus.OK, body, fields)


def _parse(head: bytes) -> _Request | None:
    """The request of a head; None if it is no HTTP."""
    try:
        line, _, fields = head.partition(b"\r\n")
        method, target, version = line.decode("latin-1").split(" ")
        headers = parse_headers(io.BytesIO(fields))
    except (HTTPException, ValueError):
        return None
    return _Request(method, target.partition("?")[0], headers) if version.startswith("HTTP/") else None


async def _send(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(content)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Read up to the empty line behind the headers; what follows is of no interest."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return b""


def serve_metrics(
    metrics: Metrics,
    listen: str,
    health: HealthCheck | None = None,
    *,
    request_timeout_s: float = _REQUEST_TIMEOUT_S,
    response_timeout_s: float = _RESPONSE_TIMEOUT_S,
) -> tuple[str, Callable[[], None]]:
    """Serve metrics at `/metrics` and health at `/healthz`; returns the bound address and a function to stop it.

    `health`: None for a process without an event loop, of which it is only known that it runs.
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
        listener = socket.create_server((host or "0.0.0.0", port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise StartupError(f"cannot serve metrics on {listen}: {error.strerror}") from error
    listener.setblocking(False)
    loop = asyncio.SelectorEventLoop()
    stop = asyncio.Event()

    async def serve() -> None:
        with listener:
            server = MetricsServer(registry, request_timeout_s, response_timeout_s, health)
            accepting = asyncio.ensure_future(server.accept(listener))
            await stop.wait()
            accepting.cancel()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, name="metrics", daemon=True)
    thread.start()

    def close() -> None:
        loop.call_soon_threadsafe(stop.set)
        thread.join()

    return f"{host}:{listener.getsockname()[1]}", close
