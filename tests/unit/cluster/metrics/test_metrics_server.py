"""The metrics port, among clients that are idle, slow or no scrapers at all."""

import asyncio
import gzip
import os
import queue
import resource
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import structlog

from cluster.metrics.health import Health, HealthCheck
from cluster.metrics.registry import Metrics
from cluster.metrics.server import CONNECTIONS_MAX, serve_metrics
from cluster.model.errors import StartupError
from tests.timeouts import TIMEOUT_S

CROWD = 300


@contextmanager
def served(*, timeout_s: float = TIMEOUT_S, padding: int = 0) -> Iterator[str]:
    metrics = Metrics()
    metrics.gauge("d", "t", "n", number=0).set(1)
    for number in range(100 if padding else 0):
        metrics.gauge("d", "t", "n", number=f"{number:0{padding}}").set(1)
    address, close = serve_metrics(metrics, "127.0.0.1:0", timeout_s=timeout_s)
    try:
        yield address
    finally:
        close()


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


def connect_to_read_slowly(address: str) -> socket.socket:
    """With so little room that what is not read stays with the server, whatever the kernel's buffers could take."""
    host, _, port = address.rpartition(":")
    client = socket.socket()
    client.settimeout(TIMEOUT_S)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    client.connect((host, int(port)))
    return client


def scrape(address: str, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://{address}{path}", method=method, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def send_raw(address: str, content: bytes) -> bytes:
    with connect(address) as client:
        client.sendall(content)
        return client.makefile("rb").readline()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed the connection; what it sent before is skipped."""
    client.setblocking(False)
    try:
        while client.recv(1 << 20):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def test_metrics_are_served_until_closed_and_a_port_in_use_is_named() -> None:
    with served() as address:
        assert b'\nd_t_n{number="0"} 1.0\n' in scrape(address)[1]
        with pytest.raises(StartupError, match=address):
            serve_metrics(Metrics(), address)
    with pytest.raises(OSError, match="refused"):
        connect(address)


@pytest.mark.rule("FD-6")
@pytest.mark.parametrize("path", ["/", "/foo", "/metrics/", "/metricsx", "/favicon.ico"])
def test_an_unknown_path_is_not_found(path: str) -> None:
    with served() as address:
        status, body = scrape(address, path)
        assert (status, b"/metrics" in body, b"d_t_n" in body) == (404, True, False)
        assert scrape(address, "/metrics?name=d_t_n")[0] == 200


def test_other_methods_and_formats() -> None:
    with served() as address:
        assert scrape(address, method="POST")[0] == 405
        assert scrape(address, method="HEAD") == (200, b"")
        assert b"d_t_n" in gzip.decompress(scrape(address, Accept_Encoding="gzip")[1])
        assert scrape(address, Accept="application/openmetrics-text; version=1.0.0")[1].endswith(b"# EOF\n")


@pytest.mark.rule("FD-6")
@pytest.mark.parametrize(
    "content",
    [
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00 TLS hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"x: y\r\n" * 200 + b"\r\n",
        b"GET /" + b"x" * 100_000,
    ],
)
def test_what_is_no_request_is_answered_as_such(content: bytes) -> None:
    with served() as address:
        with suppress(ConnectionError):
            # The connection may be closed before a request that is too long was read to its end.
            assert send_raw(address, content).split(b" ")[1:2] in ([b"400"], [b"414"], [b"431"], [])
        assert scrape(address)[0] == 200


@pytest.mark.rule("FD-6")
def test_idle_connections_cost_few_threads_and_keep_no_scraper_out() -> None:
    with served() as address, ExitStack() as cleanup:
        threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
        crowd = [cleanup.enter_context(connect(address)) for _ in range(CROWD)]
        assert scrape(address)[0] == 200
        until(lambda: sum(map(is_closed, crowd)) >= CROWD - CONNECTIONS_MAX)
        assert threading.active_count() <= threads + CONNECTIONS_MAX
        assert len(os.listdir("/proc/self/fd")) <= descriptors + CROWD + CONNECTIONS_MAX
        assert scrape(address)[0] == 200


@pytest.mark.rule("FD-6")
def test_a_request_must_arrive_within_its_time_however_it_trickles() -> None:
    with served(timeout_s=0.3) as address, connect(address) as idle, connect(address) as slow:
        ends = threading.Event()

        def trickle() -> None:
            with suppress(OSError):
                while not ends.wait(0.02):
                    slow.sendall(b"x")

        thread = threading.Thread(target=trickle)
        thread.start()
        until(lambda: is_closed(idle) and is_closed(slow))
        ends.set()
        thread.join()
        assert scrape(address)[0] == 200


@pytest.mark.rule("FD-6")
def test_who_does_not_read_the_response_is_dropped() -> None:
    with served(timeout_s=0.3, padding=100_000) as address, ExitStack() as cleanup:
        before = len(os.listdir("/proc/self/fd"))
        crowd = [cleanup.enter_context(connect(address)) for _ in range(5)]
        for client in crowd:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert scrape(address, "/foo")[0] == 404
        until(lambda: len(os.listdir("/proc/self/fd")) == before + len(crowd))


@pytest.mark.rule("FD-6")
def test_without_descriptors_connections_wait_and_the_server_goes_on() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with structlog.testing.capture_logs() as lines, served() as address:
        client = socket.socket()
        client.settimeout(TIMEOUT_S)
        taken: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            host, _, port = address.rpartition(":")
            client.connect((host, int(port)))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            until(lambda: lines != [])
        finally:
            for descriptor in taken:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert client.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
        client.close()
        assert [line["event"] for line in lines] == ["Metrics connections cannot be accepted"]


@pytest.mark.rule("FD-8")
def test_a_process_whose_event_loop_is_blocked_is_unhealthy_and_not_alive() -> None:
    served_at: queue.Queue[str] = queue.Queue()
    goes_on = threading.Event()

    async def program() -> None:
        check = HealthCheck(lambda: Health("registered", is_healthy=True), timeout_s=0.3)
        address, close = serve_metrics(Metrics(), "127.0.0.1:0", check)
        try:
            await asyncio.to_thread(lambda: until(lambda: scrape(address, "/healthz") == (200, b"registered\n")))
            served_at.put(address)
            goes_on.wait(TIMEOUT_S)  # Blocks the loop.
            assert await asyncio.to_thread(scrape, address, "/healthz") == (200, b"registered\n")
        finally:
            close()

    thread = threading.Thread(target=lambda: asyncio.run(program()))
    thread.start()
    try:
        address = served_at.get(timeout=TIMEOUT_S)
        assert scrape(address, "/healthz") == (503, b"the event loop does not respond\n")
        assert scrape(address, "/livez")[0] == 503
        assert scrape(address)[0] == 200
    finally:
        goes_on.set()
        thread.join()


@pytest.mark.rule("FD-8")
def test_health_is_not_behind_scrapes_that_nobody_reads() -> None:
    with served(padding=100_000) as address, ExitStack() as cleanup:
        for _ in range(5):
            client = cleanup.enter_context(connect(address))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert scrape(address, "/healthz") == (200, b"running\n")


def test_who_reads_slowly_keeps_neither_health_checks_nor_connections_out() -> None:
    """As many as there may be connections have sent their requests, and read nothing."""
    with served(padding=200_000) as address, ExitStack() as stack:
        slow = [stack.enter_context(connect_to_read_slowly(address)) for _ in range(CONNECTIONS_MAX + 8)]
        for client in slow:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: any(is_closed(client) for client in slow))
        for _ in range(3):
            assert scrape(address, "/healthz") == (200, b"running\n")


@pytest.mark.parametrize("readers", [4, CONNECTIONS_MAX - 1])
def test_who_reads_slowly_makes_way_for_other_scrapers(readers: int) -> None:
    with served(padding=200_000) as address, ExitStack() as stack:
        slow = [stack.enter_context(connect_to_read_slowly(address)) for _ in range(readers)]
        for client in slow:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow[3].recv(1) == b"H"
        assert scrape(address, Accept_Encoding="gzip")[0] == 200


def test_a_head_of_health_has_no_body() -> None:
    with served() as address, connect(address) as client:
        client.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.makefile("rb").read().endswith(b"\r\n\r\n")


@pytest.mark.parametrize("version", ["abc", "", "1.x", "0x1", "1.0.0.0.0", "-1", "1e9", "9" * 5000, "\xff"])
def test_a_version_that_is_none_gets_the_plain_format(version: str) -> None:
    with served() as address:
        for form in ("application/openmetrics-text", "text/plain"):
            assert scrape(address, Accept=f"{form};version={version};escaping=x")[0] == 200
