"""The embedded server as a child and as a foreground program."""

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.model.errors import StartupError
from deploy.local import processes
from deploy.local.zookeeper import is_serving, prepare
from tests.contract.zookeeper_worlds import eventually
from tests.processes.local_clusters import eventually as polled

pytestmark = pytest.mark.real


def test_a_stopped_server_starts_again_on_its_port(own_zookeeper_server: EmbeddedZooKeeper) -> None:
    server = own_zookeeper_server
    address, port = server.address, server.port
    assert address == f"127.0.0.1:{port}"
    server.stop()
    server.stop()
    assert not is_serving("127.0.0.1", port)
    server.start()
    assert server.address == address
    assert is_serving("127.0.0.1", port)


def test_a_paused_server_can_be_stopped(own_zookeeper_server: EmbeddedZooKeeper) -> None:
    own_zookeeper_server.pause()
    own_zookeeper_server.stop()
    assert not is_serving("127.0.0.1", own_zookeeper_server.port)


def test_a_port_in_use_is_named_in_the_error(zookeeper_server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=f"port {zookeeper_server.port} "):
        EmbeddedZooKeeper(tmp_path, port=zookeeper_server.port).start()


@pytest.mark.parametrize("port", [None, 0])
def test_a_server_without_a_port_gets_one_that_it_finds_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int | None
) -> None:
    # While it is down, clients that look for it take ports as they come.
    monkeypatch.setattr(processes, "_first_ephemeral_port", lambda: 21_500)
    assert prepare(port, tmp_path).port in range(20_000, 21_500)


@pytest.fixture
def foreground(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    program = (
        "import sys; from pathlib import Path; from deploy.local.zookeeper import ServerSettings, run_foreground; "
        "run_foreground(0, Path(sys.argv[1]), ServerSettings(), print)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()


async def test_the_foreground_server_says_where_it_serves_and_ends_on_sigterm(
    foreground: subprocess.Popen[str],
) -> None:
    assert foreground.stdout is not None
    host, _, port = foreground.stdout.readline().strip().partition(":")
    assert host == "127.0.0.1"
    await eventually(lambda: is_serving(host, int(port)))
    foreground.send_signal(signal.SIGTERM)
    await eventually(lambda: foreground.poll() is not None)
    assert not is_serving(host, int(port))


def test_a_server_starts_from_the_jars_of_the_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else found(name))
    try:
        command = prepare(None, tmp_path, say=print)
    except StartupError as error:
        pytest.skip(str(error))
    assert "pyspark" not in " ".join(command.arguments)
    with subprocess.Popen(command.arguments) as process:
        try:
            polled(lambda: is_serving("127.0.0.1", command.port), "the server serves")
        finally:
            process.kill()
