"""An open cluster with data becomes a secured one, one node after the other, under load, and nothing is lost."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.process.local_cluster import BROKER, CONTROLLER
from tests.processes.certificates import Issuer
from tests.processes.commands import klamm, run_klamm
from tests.processes.local_clusters import eventually
from tests.processes.numbered_records import NumberedRecords
from tests.processes.outside_listeners import ClusterWithOutside, serving_outside
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]
BROKERS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterWithOutside]:
    with serving_outside(tmp_path / "c", controllers=2, brokers=BROKERS) as made:
        klamm(made, "topics", "create", "orders", "--partitions", "3", "--replication-factor", "3")
        klamm(made, "topics", "create", "load", "--partitions", "3", "--replication-factor", "3")
        yield made


class PerfProduce:
    """`klamm perf produce`, again and again, until it is stopped: new clients that all have to find the cluster."""

    def __init__(self, where: Sequence[str]) -> None:
        self._where, self._ends = where, threading.Event()
        self._failed: list[str] = []
        self.runs = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            load = ("--records", "2000", "--throughput", "400", "--verify")
            ended = run_klamm("perf", "produce", "load", *load, *self._where, "--timeout", str(TIMEOUT_S))
            self.runs += 1
            if ended.returncode:
                self._failed.append(ended.stdout + ended.stderr)

    def stop(self) -> None:
        """Every record of every run was acknowledged, and is there once."""
        self._ends.set()
        self._thread.join(2 * TIMEOUT_S)
        print(f"\n{self.runs} runs of klamm perf produce --verify with 2,000 records each")
        assert self.runs > 0
        assert self._failed == []


@contextmanager
def under_load(where: Sequence[str], sent: list[int]) -> Iterator[None]:
    """Records are produced meanwhile, whose numbers are added to `sent`; all of them were acknowledged."""
    numbered, perf = NumberedRecords("orders", where, len(sent)), PerfProduce(where)
    try:
        yield
        sent += numbered.stop()
        perf.stop()
    finally:
        numbered.kill()


def restart_all(cluster: ClusterWithOutside, settings: dict[str, Any], where: Sequence[str]) -> None:
    """Give all nodes these settings, one after the other, each only when all replicas are in sync again."""
    cluster.state.settings.update(settings)
    cluster._save()
    for member in (*cluster.members(CONTROLLER), *cluster.members(BROKER)):
        cluster.stop(member.name)
        cluster.start(member.name)
        began = time.monotonic()
        eventually(lambda: is_whole(cluster, where), f"all is in sync after the restart of {member.name}")
        print(f"\n{member.name} restarted; all replicas in sync after {time.monotonic() - began:.1f} s")


def is_whole(cluster: ClusterWithOutside, where: Sequence[str]) -> bool:
    cluster.restart_exited()
    found = run_klamm("topics", "describe", *where, "--timeout", "5", "-o", "json")
    if found.returncode:
        return False
    partitions = [p for topic in json.loads(found.stdout)["topics"] for p in topic["partitions"]]
    return len(partitions) == 6 and all(len(p["isr"]) == BROKERS for p in partitions)


def test_three_rolling_restarts_under_load(cluster: ClusterWithOutside, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path / "certificates")
    node, admin = issuer.issue("node"), issuer.issue("admin", subject="admin")
    file = tmp_path / "admin.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.keystore.location={admin}\nssl.truststore.location={issuer.authority}\n"
    )
    secured = ("--command-config", str(file))
    inside = ("--bootstrap", ",".join(member.address for member in cluster.state.nodes))
    outside = ("--bootstrap", ",".join(cluster.outside.values()), *secured)
    sent: list[int] = []
    with under_load(inside, sent):
        besides = {
            "ssl.keystore.location": str(node),
            "ssl.truststore.location": str(issuer.authority),
            "ssl.client.auth": "required",
            "klamm.security.transition": True,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT,EXTERNAL:SSL,METRICS:PLAINTEXT",
        }
        restart_all(cluster, besides, inside)
    before = len(sent)
    with under_load(outside, sent):
        mapped = {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROL:SSL,EXTERNAL:SSL,METRICS:PLAINTEXT"}
        restart_all(cluster, mapped, outside)
        restart_all(cluster, {"klamm.security.transition": False}, outside)
    assert 0 < before < len(sent)
    read = run_klamm("consume", "orders", "--from-beginning", "--until-end", *inside, *secured)
    assert read.returncode == 0, read.stderr
    assert sorted(map(int, read.stdout.split())) == sent
    # Leaders have moved; nothing else is found.
    assert run_klamm("elect", "preferred", "--all-topic-partitions", *outside).returncode == 0
    health = run_klamm("cluster", "health", *outside)
    assert health.returncode == 0, health.stdout
    print(f"\n{len(sent):,} numbered records sent, {before:,} of them without TLS; all read back, each once")
    assert run_klamm("cluster", "describe", *inside, "--timeout", "2").returncode == 1, "no port is open any more"
