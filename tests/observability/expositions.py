"""Metrics of a real cluster as files, and a small server of them, so that rules can be tested without a cluster.

Recorded anew, where metrics have changed, by

    .venv/bin/python -m tests.observability.expositions

from a cluster of three controllers and three brokers with six partitions of three replicas, and its ZooKeeper.
"""

import gzip
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.request import urlopen

from cluster.process.local_cluster import BROKER, CONTROLLER
from tests.observability.zookeeper_metrics import measured_zookeeper
from tests.processes.commands import klamm
from tests.processes.local_clusters import eventually, serving_cluster
from tests.timeouts import TIMEOUT_S

FOLDER: Final = Path(__file__).with_name("recorded_metrics")
BROKERS: Final = ("broker-1", "broker-2", "broker-3")
PARTITIONS, REPLICAS, RECORDS = 6, 3, 3000
"""Of the topic `orders`, the only one."""
RECORDS_PER_SECOND: Final = 10
"""By how much each broker's counter of records grows, as served here, in all and in the topic."""
_GROWING: Final = re.compile(r"^(kafka_server_brokertopicmetrics_messagesinpersec_total\S*) (\S+)$", re.MULTILINE)
_JOBS: Final = {"controller": "klamm-controller", "broker": "klamm-broker", "zookeeper": "zookeeper"}


def recorded() -> dict[str, str]:
    """By node, what it exposed."""
    return {path.name.partition(".")[0]: gzip.decompress(path.read_bytes()).decode() for path in FOLDER.glob("*.gz")}


def names_recorded() -> set[str]:
    """The names that begin as Kafka's and klamm's do."""
    return set(re.findall(r"^((?:kafka|klamm)_\w+)", "".join(recorded().values()), re.MULTILINE))


@contextmanager
def exporters() -> Iterator[list[dict[str, Any]]]:
    """Serve the files; yields the scrape jobs, with the labels that shipped configurations give."""
    texts = recorded()
    started_at = time.monotonic()

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            more = RECORDS_PER_SECOND * (time.monotonic() - started_at)
            text = _GROWING.sub(lambda match: f"{match[1]} {float(match[2]) + more}", texts[self.path[1:]])
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield [_job(node, server.server_port) for node in sorted(texts)]
        server.shutdown()


def _job(node: str, port: int) -> dict[str, Any]:
    labels = {"node": node, "instance": f"{node}:9404"}
    return {
        "job_name": f"static-{node}",
        "metrics_path": f"/{node}",
        "static_configs": [
            {"targets": [f"127.0.0.1:{port}"], "labels": {**labels, "job": _JOBS[node.partition("-")[0]]}}
        ],
    }


def record() -> None:
    """Write what the processes of a cluster expose, a file for each."""
    with tempfile.TemporaryDirectory() as name, measured_zookeeper(Path(name) / "zookeeper") as (address, _, job):
        options: dict[str, Any] = {"controllers": 3, "brokers": 3, "zookeeper": address}
        with serving_cluster(Path(name) / "cluster", **options) as cluster:
            shape = ("--partitions", str(PARTITIONS), "--replication-factor", str(REPLICAS))
            klamm(cluster, "topics", "create", "orders", *shape)
            klamm(cluster, "produce", "orders", stdin="".join(f"k{n}\t{n}\n" for n in range(RECORDS)))
            klamm(cluster, "consume", "orders", "--from-beginning", "--until-end")
            members = [*cluster.members(CONTROLLER), *cluster.members(BROKER)]
            addresses = {member.name: f"127.0.0.1:{member.metrics_port}" for member in members}
            addresses["zookeeper-1"] = job["static_configs"][0]["targets"][0]
            eventually(lambda: _value(addresses, "bytesinpersec_total{") > 0, "the brokers have counted")
            for node, found in addresses.items():
                (FOLDER / f"{node}.txt.gz").write_bytes(gzip.compress(_exposed(found).encode(), mtime=0))
                sys.stdout.write(f"{node}\n")


def _value(addresses: dict[str, str], part: str) -> float:
    lines = _exposed(addresses[BROKERS[0]]).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if part in line)


def _exposed(address: str) -> str:
    with urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as answer:
        return "".join(line for line in answer.read().decode().splitlines(True) if not line.startswith("# HELP"))


if __name__ == "__main__":
    record()
