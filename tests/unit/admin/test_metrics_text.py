"""Reading metrics from a port at which anybody may answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from admin.cli.metrics_text import METRICS_BYTES_MAX, read_metrics
from tests.timeouts import TIMEOUT_S


@contextmanager
def answering(head: bytes, repeated: bytes = b"", pause_s: float = 0) -> Iterator[str]:
    """A server that answers once with the head, and with the rest again and again until the client has left."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def serve() -> None:
            client, _ = listener.accept()
            with client, suppress(OSError):
                client.recv(4096)
                client.sendall(head)
                while repeated and not ended.wait(pause_s):
                    client.sendall(repeated)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        thread.join()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_trickles_is_given_up(head: bytes) -> None:
    with answering(head, b"x", 0.05) as address, pytest.raises(TimeoutError):
        read_metrics(address, 0.5)


def test_an_endless_answer_is_cut() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536) as address:
        assert len(read_metrics(address, TIMEOUT_S)) == METRICS_BYTES_MAX


def test_a_redirect_is_not_followed() -> None:
    head = b"HTTP/1.1 302 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with answering(head) as address, pytest.raises(ValueError, match="answers with 302"):
        read_metrics(address, TIMEOUT_S)


def test_the_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with answering(b"HTTP/1.1 200 OK\r\n\r\na 1\n") as address:
        assert read_metrics(address, TIMEOUT_S) == "a 1\n"
