"""ZooKeeper restored from a backup, on real processes: stuck, said by health, recovered, and nothing lost."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.process.local_cluster import BROKER, CONTROLLER, ZOOKEEPER
from deploy.local.cluster import LocalCluster
from launcher.__main__ import app
from launcher.serving import wait_until_serving
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real


def controller(cluster: LocalCluster) -> tuple[int, int]:
    """Id and epoch of the active controller."""
    found = as_json(cluster, "cluster", "describe")["controller"]
    return found["id"], found["epoch"]


def produce(cluster: LocalCluster, topic: str, count: int) -> int:
    produced = klamm(cluster, "produce", topic, "--count", str(count), "--acks", "all")
    acknowledged = int(re.findall(r"\d+", produced.stdout)[-1])
    assert acknowledged == count
    return acknowledged


def read(cluster: LocalCluster, topic: str) -> int:
    return len(klamm(cluster, "consume", topic, "--from-beginning", "--until-end").stdout.splitlines())


def issues(cluster: LocalCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = with_issues(cluster, "cluster", "health").get("findings", [{"kind": "no answer"}])
    return [f for f in found if f["kind"] != "imbalanced_leaders"]


def with_issues(cluster: LocalCluster, *arguments: str) -> dict[str, Any]:
    """What a command answers to a program, whatever its exit code; empty if nothing."""
    answer = CliRunner().invoke(app, [*arguments, "-o", "json", "--data", str(cluster.folder)])
    document: dict[str, Any] = json.loads(answer.stdout) if answer.stdout else {}
    return document


def planned_recovery(cluster: LocalCluster) -> dict[str, Any]:
    return with_issues(cluster, "cluster", "recover", "--dry-run")


def data_of_zookeeper(cluster: LocalCluster) -> Path:
    return cluster.folder / "data" / ZOOKEEPER


def back_up(cluster: LocalCluster, backup: Path) -> None:
    cluster.kill(ZOOKEEPER)
    shutil.copytree(data_of_zookeeper(cluster), backup)
    cluster.start(ZOOKEEPER)
    wait_until_serving(cluster, TIMEOUT_S)


def restore(cluster: LocalCluster, backup: Path) -> None:
    cluster.kill(ZOOKEEPER)
    shutil.rmtree(data_of_zookeeper(cluster))
    shutil.copytree(backup, data_of_zookeeper(cluster))
    cluster.start(ZOOKEEPER)


def elect_another_controller(cluster: LocalCluster) -> None:
    id_, epoch = controller(cluster)
    cluster.kill(f"{CONTROLLER}-{id_}")
    eventually(lambda: controller(cluster)[1] > epoch, "another controller")
    cluster.start(f"{CONTROLLER}-{id_}")
    wait_until_serving(cluster, TIMEOUT_S)


def elect_other_leaders(cluster: LocalCluster, topic: str, broker: int) -> None:
    """The broker leaves the ISRs and returns: leader epochs and partition epochs rise."""
    cluster.kill(f"{BROKER}-{broker}")
    eventually(lambda: all(broker not in p["isr"] for p in partitions(cluster, topic)), "shrunk")
    produce(cluster, topic, 50)
    cluster.start(f"{BROKER}-{broker}")
    eventually(lambda: all(broker in p["isr"] for p in partitions(cluster, topic)), "in sync again")


@pytest.mark.rule("RC-1", "RC-2", "RC-5", "RC-6", "AG-10", "ZC-9")
@pytest.mark.parametrize(
    "elections", [2, pytest.param(1, marks=pytest.mark.deep)], ids=["two-elections-old", "one-election-old"]
)
def test_a_restored_zookeeper_is_brought_up_to_what_the_brokers_know(tmp_path: Path, elections: int) -> None:
    with serving_cluster(tmp_path / "c", controllers=2, brokers=3) as cluster:
        for name in ("orders", "quiet"):
            klamm(cluster, "topics", "create", name, "--partitions", "3", "--replication-factor", "3")
            produce(cluster, name, 100)
        back_up(cluster, tmp_path / "backup")
        for _ in range(elections):
            elect_another_controller(cluster)
        elect_other_leaders(cluster, "orders", 2)
        klamm(cluster, "topics", "create", "later", "--partitions", "2", "--replication-factor", "3")
        produce(cluster, "later", 70)
        produce(cluster, "orders", 30)
        before = {t: partitions(cluster, t) for t in ("orders", "later")}
        epoch = controller(cluster)[1]
        restore(cluster, tmp_path / "backup")
        eventually(lambda: any(f["kind"] == "refuses_controller" for f in issues(cluster)), "health says so")
        said = klamm(cluster, "cluster", "health", code=3)
        assert "refuses the controller's requests" in said.stdout
        # Broker 2 was started after the backup: it registers once the session that the backup has of it expired.
        eventually(lambda: planned_recovery(cluster).get("refusals") == [], "every broker registered")
        assert planned_recovery(cluster)["only_on_brokers"] == ["later"]
        klamm(cluster, "cluster", "recover", "--execute")
        eventually(lambda: issues(cluster) == [], "healthy")
        assert controller(cluster)[1] > epoch
        assert (read(cluster, "orders"), read(cluster, "quiet"), read(cluster, "later")) == (180, 100, 70)
        for name, of_topic in before.items():
            for old, new in zip(of_topic, partitions(cluster, name), strict=True):
                assert new["leader_epoch"] > old["leader_epoch"]
                assert new["partition_epoch"] > old["partition_epoch"]
        produce(cluster, "later", 5)
        assert as_json(cluster, "cluster", "recover", "--dry-run")["partitions"] == []
