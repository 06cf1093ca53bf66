"""An open cluster with data becomes a secured one, one node after the other, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.process.local_cluster import BROKER, CONTROLLER
from deploy.local.cluster import LocalCluster
from tests.processes.certificates import Issuer
from tests.processes.commands import klamm, run_klamm
from tests.processes.local_clusters import eventually, serving_cluster

pytestmark = [pytest.mark.real, pytest.mark.deep]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path / "c", controllers=2, brokers=3) as running:
        klamm(running, "topics", "create", "orders", "--partitions", "3", "--replication-factor", "3")
        yield running


def restart_all(cluster: LocalCluster, settings: dict[str, Any], *where: str) -> None:
    """Give all nodes these settings, one after the other, each only when all replicas are in sync again."""
    state = cluster.state
    state.settings.update(settings)
    cluster._save()
    for member in (*cluster.members(CONTROLLER), *cluster.members(BROKER)):
        cluster.stop(member.name)
        cluster.start(member.name)
        eventually(lambda: is_whole(cluster, where), f"all is in sync after the restart of {member.name}")


def is_whole(cluster: LocalCluster, where: tuple[str, ...]) -> bool:
    """By what controllers know, as clients reach only the nodes of their own kind meanwhile."""
    cluster.restart_exited()
    for options in (where, ()):
        addresses = ",".join(member.address for member in cluster.members(CONTROLLER))
        found = run_klamm("cluster", "describe", "--bootstrap", addresses, *options, "--timeout", "3", "-o", "json")
        if found.returncode == 0:
            answer = run_klamm("topics", "describe", "orders", "--bootstrap", addresses, *options, "-o", "json")
            return answer.returncode == 0 and answer.stdout.count('"isr"') == 3 and is_in_sync(answer.stdout)
    return False


def is_in_sync(document: str) -> bool:
    import json

    return all(len(p["isr"]) == 3 for topic in json.loads(document)["topics"] for p in topic["partitions"])


def test_three_rolling_restarts(cluster: LocalCluster, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path / "certificates")
    node, admin = issuer.issue("node"), issuer.issue("admin", subject="admin")
    stores = {"ssl.keystore.location": str(node), "ssl.truststore.location": str(issuer.authority)}
    file = tmp_path / "admin.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.keystore.location={admin}\nssl.truststore.location={issuer.authority}\n"
    )
    secured = ("--command-config", str(file))
    lines = "".join(f"{number}\n" for number in range(1000))
    klamm(cluster, "produce", "orders", stdin=lines)
    restart_all(cluster, {**stores, "klamm.security.transition": True})
    mapped = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROL:SSL,METRICS:PLAINTEXT",
        "ssl.client.auth": "required",
    }
    restart_all(cluster, mapped, *secured)
    restart_all(cluster, {"klamm.security.transition": False}, *secured)
    where = ("--bootstrap", cluster.members(BROKER)[0].address, *secured)
    sent = run_klamm("produce", "orders", *where, stdin=lines)
    assert sent.returncode == 0, sent.stderr
    read = run_klamm("consume", "orders", "--from-beginning", "--until-end", *where)
    assert sorted(read.stdout.split(), key=int) == sorted(lines.split() * 2, key=int)
    assert run_klamm("cluster", "describe", *where[:2], "--timeout", "2").returncode == 1
