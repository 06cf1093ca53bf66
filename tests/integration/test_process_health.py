"""`klamm health`, `/healthz` and systemd's notifications, on real processes that hang, lose ZooKeeper and stop."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from deploy.local.processes import choose_free_ports
from tests.processes.programs import LONG_SESSIONS
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real
ROLES = ("controller", "broker")


class Node:
    """One process, started as `klamm controller` or `klamm broker` from environment variables alone."""

    def __init__(
        self, role: str, folder: Path, zookeeper: str, settings: Mapping[str, object], **environment: str
    ) -> None:
        (port,) = choose_free_ports(1)
        self.role, self.metrics = role, f"127.0.0.1:{port}"
        self.variables = {
            "KLAMM_ID": "1001" if role == "controller" else "1",
            "KLAMM_ZOOKEEPER": zookeeper,
            "KLAMM_LISTEN": "127.0.0.1:0",
            "KLAMM_METRICS_LISTEN": self.metrics,
            "KLAMM_DATA": str(folder / role),
            "KLAMM_SETTINGS": json.dumps(settings),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "klamm", role],
            env={**os.environ, **self.variables, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )

    def health(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "klamm", "health", *options]
        return subprocess.run(
            command, env={**os.environ, **self.variables}, capture_output=True, text=True, check=False
        )

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.metrics}{path}", timeout=TIMEOUT_S) as response:
                return response.status, response.read().decode().strip()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode().strip()

    def until(self, condition: Callable[[int, str], bool]) -> subprocess.CompletedProcess[str]:
        """Wait until the answer of /healthz is such; returns what `klamm health` says then."""
        deadline, found = time.monotonic() + TIMEOUT_S, (0, "")
        while not condition(*found):
            assert time.monotonic() < deadline, found
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)
            # Before it listens, nobody answers.
            with suppress(OSError):
                found = self.get("/healthz")
        return self.health()

    def until_healthy(self) -> str:
        return self.until(lambda code, _: code == 200).stdout.strip()

    def end(self) -> tuple[int, str]:
        self.process.terminate()
        _, lines = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, lines


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def start_node(role: str, zookeeper: str, **environment: str) -> Node:
        folder = tmp_path / str(len(nodes))
        folder.mkdir()
        nodes.append(Node(role, folder, zookeeper, LONG_SESSIONS, **environment))
        return nodes[-1]

    yield start_node
    for node in nodes:
        node.process.kill()
        node.process.communicate()


@pytest.mark.rule("FD-8")
@pytest.mark.parametrize("role", ROLES)
def test_a_paused_process_is_unhealthy_and_healthy_again_when_it_goes_on(
    role: str, start: Callable[..., Node], zookeeper: str
) -> None:
    node = start(role, zookeeper)
    state = {"controller": "active", "broker": "registered"}[role]
    assert node.until(lambda _, text: text == state).stdout.strip() == state
    assert node.get("/healthz") == (200, state)
    assert node.get("/healthz2")[0] == 404
    node.process.send_signal(signal.SIGSTOP)
    try:
        answer = node.health("--timeout", "0.5")
    finally:
        node.process.send_signal(signal.SIGCONT)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == f"klamm: {node.metrics}: no answer within 0.5 s\n"
    assert node.until_healthy() == state
    assert node.end()[0] == 0


@pytest.mark.rule("FD-8")
def test_the_second_controller_is_on_standby_and_a_process_that_is_gone_is_refused(
    start: Callable[..., Node], zookeeper: str
) -> None:
    active = start("controller", zookeeper)
    assert active.until(lambda _, text: text == "active").stdout == "active\n"
    standby = start("controller", zookeeper, KLAMM_ID="1002")
    standby.variables["KLAMM_ID"] = "1002"
    assert standby.until_healthy() == "standby"
    assert active.end()[0] == 0
    assert standby.until(lambda _, text: text == "active").stdout == "active\n"
    assert active.health().returncode == 1
    assert "Connection refused" in active.health().stderr


@pytest.mark.rule("FD-8")
@pytest.mark.parametrize("role", ROLES)
def test_without_zookeeper_a_process_is_unhealthy_but_a_restart_would_not_help(
    role: str, start: Callable[..., Node], own_zookeeper_server: EmbeddedZooKeeper
) -> None:
    node = start(role, own_zookeeper_server.address)
    node.until_healthy()
    own_zookeeper_server.kill()
    lost = node.until(lambda code, _: code == 503)
    assert lost.returncode == 1
    assert lost.stderr == f"klamm: {node.metrics}: no connection to ZooKeeper\n"
    assert (node.get("/healthz")[0], node.get("/livez")[0]) == (503, 200)


@pytest.mark.rule("FD-8")
def test_health_costs_little_cpu(start: Callable[..., Node], zookeeper: str) -> None:
    node = start("controller", zookeeper)
    node.until_healthy()
    cpu_s = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert node.health().returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # CPU, not wall time; a tenth of a second is what is promised, twice that bears a busy machine's caches.
    assert min(cpu_s) < 0.2


@pytest.mark.rule("FD-8")
def test_health_imports_neither_typer_nor_grpc() -> None:
    program = (
        "import sys; sys.argv = ['klamm', 'health', '--metrics', '127.0.0.1:1']\n"
        "from klamm.entry import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'typer', 'grpc', 'pydantic', 'msgspec'}))"
    )
    answer = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert answer.stdout == "1\n[]\n", answer.stderr


@pytest.mark.parametrize("role", ROLES)
def test_systemd_is_notified_of_the_start_the_watchdog_and_the_stop(
    role: str, start: Callable[..., Node], zookeeper: str, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(TIMEOUT_S)
        node = start(role, zookeeper, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000")
        received = set()
        while not {"READY=1", "WATCHDOG=1"} <= received:
            received.add(manager.recv(4096).decode().partition("\n")[0])
        node.process.terminate()
        while "STOPPING=1" not in received:
            received.add(manager.recv(4096).decode().partition("\n")[0])
    code, _ = node.end()
    assert code == 0


@pytest.mark.parametrize("role", ROLES)
def test_a_listener_that_others_reach_is_warned_of(role: str, start: Callable[..., Node], zookeeper: str) -> None:
    exposed = start(role, zookeeper, KLAMM_LISTEN="0.0.0.0:0", KLAMM_ADVERTISED="127.0.0.1:0")
    exposed.until_healthy()
    _, lines = exposed.end()
    assert "whoever connects may do everything: there is no authorisation" in lines
    private = start(role, zookeeper)
    private.until_healthy()
    assert "no authorisation" not in private.end()[1]


def test_options_win_over_variables_and_these_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "controller.toml"
    file.write_text('id = 1\nzookeeper = "127.0.0.1:1"\nlisten = "127.0.0.1:0"\n[settings]\n"log.level" = "info"\n')
    command = [sys.executable, "-P", "-m", "klamm", "controller", "--config", str(file), "--listen", "nonsense"]
    environment = {**os.environ, "KLAMM_ID": "many", "KLAMM_LISTEN": "127.0.0.1:0"}
    answer = subprocess.run(
        [*command, "--override", "log.level=loud", "--id", "1001"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert "listen: 'nonsense': must be host:port" in answer.stderr
    assert "settings.\"log.level\": 'loud'" in answer.stderr
    assert "many" not in answer.stderr
    bare = subprocess.run([*command[:5]], capture_output=True, text=True, check=False)
    assert (bare.returncode, "zookeeper: is missing" in bare.stderr) == (2, True)
