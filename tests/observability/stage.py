"""A live cluster under Prometheus: ZooKeeper, controllers, three brokers, a fourth with two log directories, and
the audit. Everything is of this test, and ends with it.
"""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from cluster.aio.clock import SystemClock
from deploy.local.cluster import LocalCluster
from deploy.local.cluster_folder import TARGETS_FILE
from deploy.local.processes import choose_free_ports
from state_log.record import Kind, StateChange
from state_log.writer import FileStateChangeLog
from tests.observability.prometheus_server import COPIES, RULES, Prometheus, prometheus
from tests.observability.zookeeper_metrics import measured_zookeeper
from tests.processes.commands import LAUNCHER, klamm
from tests.processes.local_clusters import eventually, serving_cluster
from tests.timeouts import TIMEOUT_S

SETTINGS: Final = {
    "zookeeper.session.timeout.ms": 6000,
    "replica.lag.time.max.ms": 2000,
    "klamm.log.scrub.interval.ms": 1000,
    "log.flush.offset.checkpoint.interval.ms": 1000,
}
CONNECTIONS_MAX: Final = 24
"""`max.connections.per.ip` of the fourth broker."""


class Stage:
    """What provocations act on. `zookeeper` and `fourth` are processes of their own."""

    def __init__(
        self, cluster: LocalCluster, server: Prometheus, zookeeper: "subprocess.Popen[bytes]", fourth: "FourthBroker"
    ) -> None:
        self.cluster, self.server = cluster, server
        self.zookeeper, self.fourth = zookeeper, fourth
        self.audit: subprocess.Popen[bytes] | None = None
        self.audit_port = 0

    def klamm(self, *arguments: str, stdin: str | None = None) -> str:
        return klamm(self.cluster, *arguments, stdin=stdin).stdout

    def log_directory(self, broker: int) -> Path:
        return self.cluster.folder / "data" / f"broker-{broker}"

    def restart_exited(self) -> None:
        """As a supervisor: a broker exits while the registration of its predecessor is there."""
        self.cluster.restart_exited()
        self.fourth.start_again()

    def until_firing(self, *names: str) -> None:
        def fire() -> bool:
            self.restart_exited()
            return set(names) <= self.server.firing()

        eventually(fire, f"{names} fire")

    def until_healthy(self) -> None:
        """Every process runs, and every partition is fully replicated."""

        def is_healthy() -> bool:
            self.restart_exited()
            counts = self.server.query("klamm:under_replicated_partitions:sum + klamm:offline_partitions:max")
            up = self.server.query('sum(up{job=~"klamm-controller|klamm-broker"})')
            active = self.server.query("klamm:active_controllers:sum")
            return [float(s["value"][1]) for s in (*counts, *up, *active)] == [0, 7, 1]

        eventually(is_healthy, "the cluster is healthy")


class FourthBroker:
    """A broker with two log directories and few connections."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.port, self.metrics_port = choose_free_ports(2)
        self.directories = [folder / name for name in ("a", "b")]
        self.log = folder / "broker-4.log"
        folder.mkdir()
        self._folder = folder
        self._config = {
            "id": 4,
            "zookeeper": zookeeper,
            "listen": f"127.0.0.1:{self.port}",
            "metrics_listen": f"127.0.0.1:{self.metrics_port}",
            "data": [str(path) for path in self.directories],
        }
        self.configure({})
        self._command = [*LAUNCHER, "broker", "--config", str(folder / "broker.toml")]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def configure(self, more: dict[str, Any]) -> None:
        """Write its file, with these settings as well; its next start takes them."""
        settings = SETTINGS | {"max.connections.per.ip": CONNECTIONS_MAX} | more
        lines = [f"{key} = {json.dumps(value)}" for key, value in self._config.items()]
        lines += ["[settings]", *(f'"{key}" = {json.dumps(value)}' for key, value in settings.items())]
        (self._folder / "broker.toml").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def start_again(self) -> None:
        """Start it if it gave up."""
        if self.process is not None and self.process.poll() is not None:
            self.start()

    def stop(self) -> None:
        end(self.process)
        self.process = None


def end(process: "subprocess.Popen[bytes] | None") -> None:
    if process is not None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def stage(folder: Path, *, as_shipped: bool = False) -> Iterator[Stage]:
    """`as_shipped`: with every threshold and `for:` of the alerts, and no copies of metrics."""
    with ExitStack() as stack:
        zookeeper, server, zookeeper_job = stack.enter_context(measured_zookeeper(folder / "zookeeper"))
        options: dict[str, Any] = {"controllers": 3, "brokers": 3, "zookeeper": zookeeper, "settings": SETTINGS}
        cluster = stack.enter_context(serving_cluster(folder / "cluster", **options))
        fourth = FourthBroker(folder / "fourth", zookeeper)
        stack.callback(lambda: end(fourth.process))
        [audit_port] = choose_free_ports(1)
        targets = {"files": [str(cluster.folder / TARGETS_FILE)], "refresh_interval": "1s"}
        jobs = [
            {"job_name": "klamm", "file_sd_configs": [targets]},
            zookeeper_job,
            _job("klamm-broker", "broker-4", fourth.metrics_port),
            _job("klamm-audit", "audit", audit_port),
        ]
        rules = RULES if as_shipped else (*RULES, *COPIES)
        measured = stack.enter_context(prometheus(folder / "prometheus", jobs, rules, as_shipped=as_shipped))
        made = Stage(cluster, measured, server, fourth)
        made.audit_port = audit_port
        stack.callback(lambda: end(made.audit))
        made.until_healthy()
        yield made


def _job(name: str, node: str, port: int) -> dict[str, Any]:
    return {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"node": node}}]}


def log_without_a_line(folder: Path) -> Path:
    """A folder with the state-change log of a node, of which a line was removed."""
    removed = folder / "line-removed"
    log = FileStateChangeLog(removed, node="broker-77", incarnation="1700000000000.1", clock=SystemClock())
    for _ in range(3):
        log.append([StateChange(kind=Kind.ROLE, to_state="follower")])
    log.close()
    [segment] = removed.glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([lines[0], lines[2]]))
    return removed


def start_audit(stage: Stage, folder: Path, *options: str) -> None:
    """Follow the logs of the cluster."""
    arguments = [argument for path in stage.cluster.state_change_logs for argument in ("--log-dir", str(path))]
    command = [*LAUNCHER, "audit", "run", *arguments, "--output", str(folder / "output"), *options]
    command += ["--metrics-listen", f"127.0.0.1:{stage.audit_port}", "--trigger", "1"]
    with (folder / "audit.log").open("wb") as output:
        stage.audit = subprocess.Popen(command, stdout=output, stderr=output)
