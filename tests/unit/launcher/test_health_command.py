"""Where `klamm health` asks, and what it makes of the answer; on real processes: tests/integration."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from launcher.__main__ import app
from launcher.health import VARIABLE, plain_options, report
from tests.timeouts import TIMEOUT_S


class Answering:
    """A server on loopback that reads one request and answers with these bytes; `host` may be IPv6."""

    def __init__(self, answer: bytes, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self._answer = answer
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        self._listener.settimeout(TIMEOUT_S)
        client, _ = self._listener.accept()
        with client:
            client.recv(4096)
            client.sendall(self._answer)

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


@pytest.fixture
def healthy() -> Iterator[Answering]:
    server = Answering(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nactive\n")
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_the_option_wins_over_the_variable_and_that_over_the_file(
    healthy: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('id = 1\nmetrics_listen = "127.0.0.1:1"\n')
    assert report(config=str(file), timeout_s=1) == 1
    assert capsys.readouterr().err == "klamm: 127.0.0.1:1: Connection refused\n"
    monkeypatch.setenv(VARIABLE, "127.0.0.1:2")
    assert report(config=str(file), timeout_s=1) == 1
    assert "127.0.0.1:2" in capsys.readouterr().err
    assert report(f"127.0.0.1:{healthy.port}", str(file)) == 0
    assert capsys.readouterr().out == "active\n"


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_an_address_of_every_interface_is_asked_on_loopback(
    healthy: Answering, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"{host}:{healthy.port}")
    assert report() == 0


def test_what_is_wrong_is_said_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    for answer, said in (
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\nno connection to ZooKeeper\n", "no connection to ZooKeeper"),
        (b"+OK POP3 ready\r\n", "what answers there is no klamm process"),
        (b"", "what answers there is no klamm process"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://h/\r\n\r\n", "what answers there is no klamm process"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>" + b"y" * 5000, "what answers there is no klamm process"),
        (b"HTTP/1.1 200 OK\r\n\r\n\x1b[2Jactive\n", "what answers there is no klamm process"),
        (b"HTTP/1.1 503 x\r\n\r\nno\xc2\x9b2J\nactive", "what answers there is no klamm process"),
    ):
        server = Answering(answer)
        assert report(f"127.0.0.1:{server.port}") == 1
        server.close()
        assert capsys.readouterr().err == f"klamm: 127.0.0.1:{server.port}: {said}\n"


def test_a_server_that_never_ends_its_answer_does_not_keep_it(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def trickle() -> None:
            client, _ = listener.accept()
            with client, suppress(OSError):
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while not ended.wait(0.01):
                    client.sendall(b"x")

        thread = threading.Thread(target=trickle)
        thread.start()
        timer = threading.Timer(TIMEOUT_S, ended.set)
        timer.start()
        port = listener.getsockname()[1]
        assert report(f"127.0.0.1:{port}", timeout_s=0.3) == 1
        assert not ended.is_set()
        ended.set()
        timer.cancel()
        thread.join()
    assert capsys.readouterr().err == f"klamm: 127.0.0.1:{port}: no answer within 0.3 s\n"


@pytest.mark.parametrize("metrics", ["nowhere", "host:", "host:x", "host:0", "host:70000"])
def test_an_address_that_is_none_is_a_wrong_usage(metrics: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(metrics) == 2
    assert f"--metrics: '{metrics}': must be host:port" in capsys.readouterr().err


def test_without_an_address_it_says_how_to_give_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report() == 2
    assert VARIABLE in capsys.readouterr().err
    assert report(config=str(tmp_path / "absent.toml")) == 2
    assert "absent.toml: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {}),
        (["--metrics", "h:1", "--timeout", "2"], {"metrics": "h:1", "timeout_s": 2.0}),
        (["--config", "f"], {"config": "f"}),
        (["--help"], None),
        (["--timeout", "soon"], None),
        (["--timeout", "inf"], None),
        (["--timeout", "nan"], None),
        (["--timeout", "0"], None),
        (["--metrics", "--config"], None),
        (["--metric", "h:1"], None),
    ],
)
def test_plain_options_are_understood_without_the_command_line(arguments: list[str], expected: object) -> None:
    # What is not understood goes to the whole command line, which says what is wrong.
    assert plain_options(arguments) == expected


def test_the_command_line_has_the_same_options() -> None:
    answer = CliRunner().invoke(app, ["health", "--metrics", "nowhere"])
    assert answer.exit_code == 2
    assert CliRunner().invoke(app, ["health", "--metric", "h:1"]).exit_code == 2
