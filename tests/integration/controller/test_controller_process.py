"""A controller as a real process: what an operator can mend is refused in one line, with an exit code."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.controllers.plain_zookeeper import plain_client
from tests.processes.programs import LONG_SESSIONS, SHORT_TIMEOUT, Programs
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path, zookeeper: str) -> Iterator[Start]:
    """Start a controller; keywords replace fields of its configuration, None leaves one out."""
    programs = Programs(tmp_path)

    def start_controller(settings: Mapping[str, object] | None = None, **fields: object) -> "subprocess.Popen[str]":
        config = {"id": 1001, "zookeeper": f"{zookeeper}/{tmp_path.name}", "listen": "127.0.0.1:0"} | fields
        return programs.start("controller", config, {**LONG_SESSIONS, **(settings or {})})

    yield start_controller
    programs.end()


def refusal(process: "subprocess.Popen[str]", code: int) -> list[str]:
    """What the process says for humans before it ends with this exit code."""
    _, output = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code, output
    assert "Traceback" not in output
    assert "Exception ignored" not in output
    # Structured lines are diagnostics; gRPC's own library has lines of its own about ports.
    return [
        line for line in output.splitlines() if not re.match(r"\{|[EWI]\d{4} |WARNING: All log messages before", line)
    ]


def test_every_error_of_a_configuration_is_named_at_once(start: Start) -> None:
    settings: dict[str, object] = {"num.partitions": 0, "no.such.key": 1, "zookeeper.session.timeout.ms": "soon"}
    named = "\n".join(refusal(start(id="x", listen="nonsense", settings=settings), code=2))
    for field, value in (
        ("id", "'x'"),
        ("listen", "'nonsense'"),
        ('settings."num.partitions"', "0"),
        ('settings."zookeeper.session.timeout.ms"', "'soon'"),
    ):
        assert f"{field}: {value}: must be" in named
    assert 'settings."no.such.key": is not a known key' in named


@pytest.mark.parametrize("field", ["listen", "metrics_listen"])
def test_a_port_in_use_is_named(start: Start, field: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        (line,) = refusal(start(**{field: address}), code=1)
    assert address in line
    assert "in use" in line


def test_a_zookeeper_that_cannot_be_reached_is_named(start: Start) -> None:
    (line,) = refusal(start(SHORT_TIMEOUT, zookeeper="127.0.0.1:1"), code=1)
    assert line.startswith("ZooKeeper at 127.0.0.1:1 cannot be reached")


@pytest.mark.rule("EL-22", "ZK-6")
def test_a_user_whom_zookeeper_refuses_is_named_with_the_key_and_the_file(start: Start, tmp_path: Path) -> None:
    login = tmp_path / "login.jaas"
    login.write_text('Client { a.Module required username="nobody" password="secret"; };')
    settings = {"java.security.auth.login.config": str(login), "zookeeper.set.acl": True}
    (line,) = refusal(start(settings=settings), code=1)
    assert line.startswith('ZooKeeper refused the credentials: check settings."java.security.auth.login.config"')
    assert str(login) in line
    assert "secret" not in line


@pytest.mark.rule("EL-13", "EL-30", "ZK-7")
def test_a_controller_becomes_active_and_resigns_at_once_when_asked_to_end(
    start: Start, zookeeper: str, tmp_path: Path
) -> None:
    process = start()
    chroot = f"/{tmp_path.name}"
    with plain_client(zookeeper) as client:
        deadline = time.monotonic() + TIMEOUT_S
        while not client.exists(f"{chroot}/controller"):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert refusal(process, code=0) == []
        assert client.exists(f"{chroot}/controller") is None
        assert client.get_children(f"{chroot}/controllers/ids") == []
        assert client.get(f"{chroot}/controller_epoch")[0] == b"1"
