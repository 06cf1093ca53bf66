"""Debian's Prometheus with the shipped rules.

What a test changes is stated here: scrapes and evaluations every second; and unless it wants them as they are shipped,
every `for:` one second, and the thresholds of `SHORTENED`, which are times that nobody waits for.
"""

import json
import shutil
import signal
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
RULES: Final = tuple(sorted(SHIPPED.glob("*.rules.yaml")))
"""What every Prometheus of klamm loads."""
COPIES: Final = tuple(sorted((SHIPPED / "copies").glob("*.rules.yaml")))
"""Loaded on request, for the dashboards of others."""
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
    "RepeatedControllerElections": ("[30m]))), 3)", "[30m]))) * 0, 1)"),
    "ProduceOrFetchFailing": ("> 0.2", "> 0.05"),
    "RequestsSlow": ("> 1000", "> 50"),
}
"""By alert: what its expression has, and what the test's copy has in its place."""
BINARY: Final = shutil.which("prometheus")


class Prometheus:
    """A running server. Its methods ask its API."""

    def __init__(self, address: str, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self.address, self._folder, self._process = address, folder, process

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

    def rules(self) -> list[dict[str, Any]]:
        """Every rule with its `health`."""
        return [rule for group in self._get("rules", {})["groups"] for rule in group["rules"]]

    def evaluations(self) -> int:
        """How often the rules of every group have been evaluated."""
        with urlopen(f"http://{self.address}/metrics", timeout=TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        counts = [float(x.rpartition(" ")[2]) for x in lines if x.startswith("prometheus_rule_group_iterations_total{")]
        return int(min(counts, default=0))

    @contextmanager
    def more_rules(self, document: dict[str, Any]) -> Iterator[None]:
        """Load a file of rules beside the others until the end of the block."""
        path = self._folder / "more.rules.yaml"
        path.write_text(yaml.safe_dump(_every_second(document)))
        self._process.send_signal(signal.SIGHUP)
        try:
            yield
        finally:
            path.unlink()
            self._process.send_signal(signal.SIGHUP)

    def _get(self, what: str, fields: dict[str, Any]) -> Any:
        with urlopen(f"http://{self.address}/api/v1/{what}?{urlencode(fields)}", timeout=TIMEOUT_S) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(
    folder: Path, jobs: Sequence[dict[str, Any]], rules: Sequence[Path] = RULES, *, as_shipped: bool = False
) -> Iterator[Prometheus]:
    """Scrape these jobs, and itself, until the end of the block. `as_shipped`: with every threshold and `for:`."""
    assert BINARY is not None, "prometheus is not installed: apt-get install prometheus"
    folder.mkdir(parents=True, exist_ok=True)
    for path in rules:
        document = _every_second(yaml.safe_load(path.read_text("utf-8")))
        (folder / path.name).write_text(yaml.safe_dump(document if as_shipped else _shortened(document)))
    address = f"127.0.0.1:{choose_free_ports(1)[0]}"
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["*.rules.yaml"],
        "scrape_configs": [*jobs, {"job_name": "prometheus", "static_configs": [{"targets": [address]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [BINARY, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
        try:
            _wait_until_ready(address, process, folder)
            yield Prometheus(address, folder, process)
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def _every_second(document: dict[str, Any]) -> dict[str, Any]:
    for group in document["groups"]:
        group["interval"] = "1s"
    return document


def _shortened(document: dict[str, Any]) -> dict[str, Any]:
    for group in document["groups"]:
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
