"""An open cluster with data becomes a secured one, one node after the other, under load, and nothing is lost."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.process.local_cluster import BROKER, CONTROLLER, Member
from deploy.local.cluster import LocalCluster
from deploy.local.processes import choose_free_ports
from launcher.serving import wait_until_serving
from tests.processes.certificates import Issuer
from tests.processes.commands import klamm, run_klamm
from tests.processes.local_clusters import eventually
from tests.processes.numbered_records import NumberedRecords
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]
BROKERS = 3


class ClusterWithOutside(LocalCluster):
    """Each node has a listener EXTERNAL, too."""

    outside: dict[str, str]

    def _command(self, member: Member) -> list[str]:
        command = super()._command(member)
        return command if member.name not in self.outside else [*command, "--external-listen", self.where(member)]

    def where(self, member: Member) -> str:
        return self.outside[member.name]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterWithOutside]:
    made = ClusterWithOutside.create_or_open(tmp_path / "c", controllers=2, brokers=BROKERS)
    assert isinstance(made, ClusterWithOutside)
    ports = choose_free_ports(len(made.state.nodes), {port for m in made.state.members for port in m.ports})
    made.outside = {m.name: f"{m.host}:{port}" for m, port in zip(made.state.nodes, ports, strict=True)}
    try:
        made.start_all(TIMEOUT_S)
        wait_until_serving(made, TIMEOUT_S)
        klamm(made, "topics", "create", "orders", "--partitions", "3", "--replication-factor", "3")
        klamm(made, "topics", "create", "load", "--partitions", "3", "--replication-factor", "3")
        yield made
    finally:
        made.stop_all()


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


def restart_all(cluster: LocalCluster, settings: dict[str, Any], where: Sequence[str]) -> None:
    """Give all nodes these settings, one after the other, each only when all replicas are in sync again."""
    cluster.state.settings.update(settings)
    cluster._save()
    for member in (*cluster.members(CONTROLLER), *cluster.members(BROKER)):
        cluster.stop(member.name)
        cluster.start(member.name)
        eventually(lambda: is_whole(cluster, where), f"all is in sync after the restart of {member.name}")


def is_whole(cluster: LocalCluster, where: Sequence[str]) -> bool:
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
    assert run_klamm("cluster", "health", *outside).returncode == 0
    assert run_klamm("cluster", "describe", *inside, "--timeout", "2").returncode == 1, "no port is open any more"
