"""Real brokers of Apache Kafka, started by `klamm up` and `klamm demo`, under klamm's controllers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.process.local_cluster import BROKER
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_jars import NEWEST, kafka_versions
from tests.kafka.broker import kafka_class_path
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

REPLICAS = 3


@pytest.fixture(params=kafka_versions())
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    kafka_class_path(request.param)
    with serving_cluster(tmp_path / "cluster", controllers=2, brokers=3, kafka=request.param) as cluster:
        yield cluster


def test_a_topic_moves_from_a_killed_broker_and_back(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "orders", "--partitions", "3", "--replication-factor", str(REPLICAS))
    eventually(lambda: _all_in_sync(cluster), "every replica is in sync")
    victim = partitions(cluster, "orders")[0]["leader"]
    cluster.kill(f"{BROKER}-{victim}")
    eventually(lambda: victim not in {p["leader"] for p in partitions(cluster, "orders")}, "somebody else leads")
    cluster.start(f"{BROKER}-{victim}")
    eventually(lambda: cluster.restart_exited() is not None and _all_in_sync(cluster), "every replica is in sync again")


def test_a_stopped_broker_is_no_failure(cluster: LocalCluster) -> None:
    cluster.stop("broker-2")
    assert cluster.restart_exited() == []
    eventually(lambda: len(as_json(cluster, "brokers", "list")["brokers"]) == 2, "two brokers")
    states = {broker["id"]: broker["state"] for broker in as_json(cluster, "status", codes=(3,))["brokers"]}
    assert states[2] == "stopped"


def test_the_demonstration_on_kafka_passes(tmp_path: Path) -> None:
    kafka_class_path(NEWEST)
    found = json.loads(klamm(tmp_path / "demo", "demo", "--kafka", "-o", "json").stdout)
    assert found["passed"]
    assert found["records"]["acknowledged"] > 1000
    assert [set(row) for row in found["failovers"]] == [{"failure", "klamm", "Kafka"}] * 2


def _all_in_sync(cluster: LocalCluster) -> bool:
    return all(len(partition["isr"]) == REPLICAS for partition in partitions(cluster, "orders"))
