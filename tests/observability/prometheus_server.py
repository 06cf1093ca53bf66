"""Debian's Prometheus on a local cluster, with the shipped configuration and rules.

What a test changes is stated here: scrapes and evaluations every second, every `for:` one second, and the thresholds of
`SHORTENED`, which are times that nobody waits for.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from deploy.local.processes import choose_free_ports
from tests.timeouts import TIMEOUT_S

SHIPPED: Final = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
SHORTENED: Final = {
    "ControllerQueueOld": ("> 30000", "> 3000"),
    "TopicDeletionStuck": ("> 1800000", "> 2000"),
    "ReassignmentStuck": ("> 7200000", "> 2000"),
    "EventLoopBlocked": ("> 10000", "> 3000"),
    "IsrFlapping": ("> 10 and", "> 1 and"),
    "DiskNearlyFull": ("< 0.1", "< 0.98"),
    "AuditBehind": ("> 10000000", "> 1000"),
    "ZooKeeperSlow": ("> 500", "> 0.001"),
    "RequestsRefused": ("> 1", "> 0.01"),
}
"""By alert: what its expression has, and what the test's copy has in its place."""
BINARY: Final = shutil.which("prometheus")


class Prometheus:
    """A running server. Its methods ask its API."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The series of an instant query. Raises HTTPError for a malformed expression."""
        fields = {"query": expression} if at is None else {"query": expression, "time": at}
        result: list[dict[str, Any]] = self._get("query", fields)["result"]
        return result

    def query_range(self, expression: str, seconds: float, step: float) -> list[dict[str, Any]]:
        end = time.time()
        fields = {"query": expression, "start": end - seconds, "end": end, "step": step}
        result: list[dict[str, Any]] = self._get("query_range", fields)["result"]
        return result

    def firing(self) -> set[str]:
        """The names of the alerts that fire now."""
        return {a["labels"]["alertname"] for a in self._get("alerts", {})["alerts"] if a["state"] == "firing"}

    def fired(self) -> set[str]:
        """The names of the alerts that fire or have fired."""
        return {s["metric"]["alertname"] for s in self.query('max_over_time(ALERTS{alertstate="firing"}[1d])')}

    def _get(self, what: str, fields: dict[str, Any]) -> Any:
        with urlopen(f"http://{self.address}/api/v1/{what}?{urlencode(fields)}", timeout=TIMEOUT_S) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(
    folder: Path, targets: Path, jobs: Sequence[dict[str, Any]] = (), *, interval_s: int = 1
) -> Iterator[Prometheus]:
    """Scrape the processes of a targets file, and of more `jobs`, until the end of the block."""
    assert BINARY is not None, "prometheus is not installed: apt-get install prometheus"
    folder.mkdir(parents=True, exist_ok=True)
    for path in SHIPPED.glob("*.rules.yaml"):
        (folder / path.name).write_text(yaml.safe_dump(_shortened(yaml.safe_load(path.read_text("utf-8")), interval_s)))
    config = yaml.safe_load((SHIPPED / "prometheus-local.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"}
    del config["alerting"]
    config["scrape_configs"][0]["file_sd_configs"] = [{"files": [str(targets)], "refresh_interval": "1s"}]
    config["scrape_configs"][1:] = jobs
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{choose_free_ports(1)[0]}"
    command = [BINARY, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
        try:
            _wait_until_ready(address, process, folder)
            yield Prometheus(address)
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def _shortened(document: dict[str, Any], interval_s: int) -> dict[str, Any]:
    for group in document["groups"]:
        group["interval"] = f"{interval_s}s"
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = "1s"
            shipped, short = SHORTENED.get(rule.get("alert", ""), ("", ""))
            assert shipped in rule["expr"], f"{rule['alert']} has no {shipped!r}"
            rule["expr"] = rule["expr"].replace(shipped, short) if shipped else rule["expr"]
    return document


def _wait_until_ready(address: str, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with urlopen(f"http://{address}/-/ready", timeout=5):
                return
        except OSError:
            log = (folder / "prometheus.log").read_text(errors="replace")[-2000:]
            assert process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.1)
