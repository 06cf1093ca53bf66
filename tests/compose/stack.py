"""The stack of compose.yaml, up on an engine: its commands, its containers, and klamm's commands from the host."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.compose.engine import CommandError, Engine, NoEngineError, run
from tests.compose.images import Images
from tests.documents.alerting import alertmanager_configuration
from tests.timeouts import TIMEOUT_S

PROJECT: Final = "klamm-test"
PORTS: Final = "291"
"""How the ports on the host begin."""
OBSERVERS: Final = {"PROMETHEUS_PORT": "29190", "ALERTMANAGER_PORT": "29193", "GRAFANA_PORT": "29130"}
PROMETHEUS: Final = f"http://127.0.0.1:{OBSERVERS['PROMETHEUS_PORT']}"
ZOOKEEPERS: Final = tuple(f"zookeeper-{n}" for n in (1, 2, 3))
CONTROLLERS: Final = {1000 + n: f"controller-{n}" for n in (1, 2, 3)}
BROKERS: Final = {n: f"broker-{n}" for n in (1, 2, 3)}
CORE: Final = (*ZOOKEEPERS, *CONTROLLERS.values(), *BROKERS.values())
WEBHOOK: Final = "webhook"
"""The container that takes alerts."""
_POLL_S: Final = 0.5
_PRINTS_REQUESTS: Final = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("", 8080), Handler).serve_forever()
"""


def compose_command(engine: Engine) -> list[str]:
    """`docker compose` or `docker-compose`; KLAMM_TEST_COMPOSE names another program. Raises NoEngineError."""
    given = os.environ.get("KLAMM_TEST_COMPOSE")
    if given:
        return [given]
    if run(["docker", "compose", "version"], check=False, env=engine.environment).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose") is None:
        raise NoEngineError("neither docker compose nor docker-compose is installed")
    return ["docker-compose"]


class Stack:
    """One project of compose, in a network of its own."""

    def __init__(self, engine: Engine, tree: Path, images: Images) -> None:
        self._engine, self._folder = engine, tree / "deploy/docker"
        self._command = compose_command(engine)
        self._environment = {
            **engine.environment,
            **images.variables,
            "COMPOSE_PROJECT_NAME": PROJECT,
            "COMPOSE_PROFILES": "core,observe,audit",
            "KLAMM_PORTS": PORTS,
            **OBSERVERS,
            "ALERTMANAGER_CONFIG": "./webhook.yml",
        }
        (self._folder / "webhook.yml").write_text(alertmanager_configuration(f"http://{WEBHOOK}:8080/"))
        self.observers = ["prometheus", "alertmanager", *(["grafana"] if images.has_grafana else [])]
        self.bootstrap = [f"127.0.0.1:{PORTS}{number:02d}" for number in (1, 2, 3, 11, 12, 13)]

    def compose(self, *arguments: str, check: bool = True, **variables: str) -> str:
        environment = {**self._environment, **variables}
        return run([*self._command, *arguments], check=check, cwd=self._folder, env=environment).stdout

    @property
    def version(self) -> str:
        return self.compose("version").splitlines()[0]

    def up(self, *services: str) -> None:
        """Start these services, and wait until each is healthy."""
        self.compose("up", "-d", *services)
        for service in services:
            self.until_healthy(service)

    def container(self, service: str) -> str:
        """Its id, also if it does not run."""
        labels = {"project": PROJECT, "service": service, "oneoff": "False"}
        filters = [f"--filter=label=com.docker.compose.{key}={value}" for key, value in labels.items()]
        return self._engine.docker("ps", "--all", "--quiet", "--no-trunc", *filters)

    def health(self, service: str) -> str:
        state = self._engine.inspect(self.container(service))["State"]
        return str(state.get("Health", {}).get("Status", state["Status"]))

    def until_healthy(self, service: str) -> None:
        try:
            until(lambda: self.health(service) == "healthy", f"{service} is healthy")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log(service)}") from None

    def log(self, service: str, lines: int = 30) -> str:
        answer = run(
            ["docker", "logs", f"--tail={lines}", self.container(service)], check=False, env=self._engine.environment
        )
        return answer.stdout + answer.stderr

    def exit_code(self, service: str) -> int:
        state = self._engine.inspect(self.container(service))["State"]
        assert state["Status"] == "exited", f"{service} is {state['Status']}"
        return int(state["ExitCode"])

    def kill(self, service: str) -> None:
        """As kill -9 of its process; it stays down until `start`."""
        self._engine.docker("kill", "--signal=KILL", self.container(service))

    def start(self, service: str) -> None:
        self._engine.docker("start", self.container(service))
        self.until_healthy(service)

    def cut(self, service: str) -> None:
        """Disconnect it from the network, while it goes on running."""
        self._engine.docker("network", "disconnect", f"{PROJECT}_cluster", self.container(service))

    def reconnect(self, service: str) -> None:
        self._engine.docker("network", "connect", "--alias", service, f"{PROJECT}_cluster", self.container(service))

    def execute(self, service: str, *command: str) -> "subprocess.CompletedProcess[str]":
        return run(["docker", "exec", self.container(service), *command], check=False, env=self._engine.environment)

    def klamm(self, *arguments: str, stdin: str = "", check: bool = True) -> "subprocess.CompletedProcess[str]":
        """A command of klamm on the host."""
        environment = {**os.environ, "KLAMM_BOOTSTRAP": ",".join(self.bootstrap)}
        return run([sys.executable, "-P", "-m", "klamm", *arguments], check=check, input=stdin, env=environment)

    def start_webhook(self) -> None:
        """A receiver of alerts in the network of the stack: another container of klamm's image."""
        options = ("--detach", f"--name={PROJECT}-{WEBHOOK}", f"--network={PROJECT}_cluster")
        command = ("--entrypoint=/opt/klamm/bin/python", "klamm", "-c", _PRINTS_REQUESTS)
        self._engine.docker("run", *options, f"--network-alias={WEBHOOK}", *command)

    def alerts_received(self) -> set[tuple[str, str]]:
        """Name and node of the alerts that Alertmanager has sent as firing."""
        lines = self._engine.docker("logs", f"{PROJECT}-{WEBHOOK}").splitlines()
        alerts = [alert for line in lines for alert in json.loads(line)["alerts"] if alert["status"] == "firing"]
        return {(alert["labels"]["alertname"], alert["labels"].get("node", "")) for alert in alerts}

    def down(self) -> None:
        self._engine.docker("rm", "--force", f"{PROJECT}-{WEBHOOK}", check=False)
        self.compose("down", "--volumes", "--timeout", "1", check=False)


def until(condition: Callable[[], bool], what: str, timeout_s: float = 2 * TIMEOUT_S) -> None:
    """Poll until it holds; a command that fails meanwhile means that it does not hold yet."""
    deadline = time.monotonic() + timeout_s
    last = ""
    while True:
        try:
            if condition():
                return
        except (CommandError, OSError, ValueError) as error:
            last = f": {error}"
        assert time.monotonic() < deadline, f"never: {what}{last}"
        time.sleep(_POLL_S)


def get_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)
