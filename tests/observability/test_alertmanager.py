"""Alerts reach a receiver through Debian's Alertmanager, with the configuration that docs/alerts.md shows."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.request import urlopen

import pytest

from deploy.local.processes import choose_free_ports
from tests.documents.alerting import alertmanager_configuration
from tests.processes.local_clusters import eventually
from tests.timeouts import TIMEOUT_S

ALERTMANAGER: Final = shutil.which("prometheus-alertmanager")
AMTOOL: Final = shutil.which("amtool")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        ALERTMANAGER is None or AMTOOL is None, reason="missing: apt-get install prometheus-alertmanager"
    ),
]


@pytest.fixture
def received() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The URL of a webhook, and the alerts that it has been sent."""
    alerts: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            alerts.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", alerts
        server.shutdown()


@pytest.fixture
def alertmanager(tmp_path: Path, received: tuple[str, list[dict[str, Any]]]) -> Iterator[str]:
    """The URL of a running one that sends to the webhook."""
    [port] = choose_free_ports(1)
    configuration = tmp_path / "alertmanager.yml"
    configuration.write_text(alertmanager_configuration(received[0]))
    options = (f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=")
    command = [str(ALERTMANAGER), f"--config.file={configuration}", f"--storage.path={tmp_path / 'data'}", *options]
    with (tmp_path / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            eventually(lambda: is_ready(f"http://127.0.0.1:{port}"), "Alertmanager is ready")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=TIMEOUT_S):
            return True
    except OSError:
        return False


def amtool(*arguments: str) -> str:
    ended = subprocess.run([str(AMTOOL), *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_configuration_that_is_shown_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "alertmanager.yml"
    file.write_text(alertmanager_configuration("http://127.0.0.1/"))
    assert "SUCCESS" in amtool("check-config", str(file))


def test_an_alert_reaches_the_webhook(alertmanager: str, received: tuple[str, list[dict[str, Any]]]) -> None:
    amtool(f"--alertmanager.url={alertmanager}", "alert", "add", "TestOnly", "severity=warning")
    eventually(lambda: len(received[1]) > 0, "the webhook has got an alert")
    labels = received[1][0]["labels"]
    assert (labels["alertname"], labels["severity"]) == ("TestOnly", "warning")
