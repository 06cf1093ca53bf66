"""The only replica of a partition loses its end: it waits, leads, and says so until a person acknowledges it."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.cluster import LocalCluster
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, log_directory, partitions, serving_cluster

pytestmark = pytest.mark.real

SETTINGS = {
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "klamm.damaged.replica.election.delay.ms": 8000,
    "zookeeper.session.timeout.ms": 4000,
}
PATH = "lost-0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("lost") / "c"
    with serving_cluster(folder, controllers=1, brokers=1, settings=SETTINGS) as running:
        klamm(running, "topics", "create", "lost", "--partitions", "1", "--replication-factor", "1")
        for _ in range(5):
            klamm(running, "produce", "lost", "--count", "100", "--acks", "all")
        yield running


def findings(cluster: LocalCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = as_json(cluster, "cluster", "health", codes=(0, 3))["findings"]
    return found


def damage_of(cluster: LocalCluster) -> list[str]:
    return [str(found["detail"]) for found in findings(cluster) if found["kind"] == "damaged_replica"]


@pytest.mark.rule("D-41", "R9.22", "R9.33")
def test_a_loss_is_named_until_it_is_acknowledged(cluster: LocalCluster) -> None:
    checkpoint = log_directory(cluster, 1) / "replication-offset-checkpoint"
    eventually(lambda: "lost 0 500" in checkpoint.read_text(), "the high watermark is checkpointed")
    segment = next((log_directory(cluster, 1) / PATH).glob("*.log"))
    cluster.kill("broker-1")
    content = segment.read_bytes()
    segment.write_bytes(content[: len(content) // 2])
    eventually(lambda: as_json(cluster, "cluster", "describe")["brokers"] == [], "the broker is gone")
    cluster.start("broker-1")

    kinds: list[str] = []

    def waits() -> bool:
        kinds[:] = [found["kind"] for found in findings(cluster)]
        return "damaged_replica_waits" in kinds

    eventually(waits, "it waits")
    assert kinds[:2] == ["offline_partition", "damaged_replica_waits"]
    refusal = klamm(cluster, "brokers", "acknowledge-damage", "1", PATH, code=1).stderr
    assert "are not given up" in refusal
    eventually(lambda: partitions(cluster, "lost")[0]["leader"] == 1, "it is elected")
    (before,) = damage_of(cluster)
    assert "at least offsets " in before
    assert before.endswith(f"klamm brokers acknowledge-damage 1 {PATH}")
    klamm(cluster, "produce", "lost", "--count", "1000", "--acks", "all")

    cluster.kill("controller-1001")
    eventually(
        lambda: "no_active_controller" in klamm_health(cluster), "the end of the controller's session is noticed"
    )
    assert klamm_health(cluster)[1] == "damaged_replica"
    cluster.start("controller-1001")

    cluster.stop("broker-1")
    cluster.start("broker-1")
    eventually(lambda: partitions(cluster, "lost")[0]["leader"] == 1, "it leads after a clean restart")
    assert damage_of(cluster) == [before]
    klamm(cluster, "brokers", "acknowledge-damage", "1", PATH, "--dry-run")
    assert damage_of(cluster) == [before]
    assert "of lost-0 acknowledged" in klamm(cluster, "brokers", "acknowledge-damage", "1", PATH).stderr
    assert damage_of(cluster) == []


def klamm_health(cluster: LocalCluster) -> list[str]:
    """The kinds of issues without an active controller; the exit code says that not all was checked."""
    answer = as_json(cluster, "cluster", "health", "--timeout", "2", codes=(1, 3))
    return [found["kind"] for found in answer["findings"]]
