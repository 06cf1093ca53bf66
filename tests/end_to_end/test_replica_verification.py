"""`klamm verify replicas` on real brokers: equal, a byte that a disk has changed, and a broker that is gone."""

from collections.abc import Iterator

import pytest

from cluster.process.local_cluster import BROKER
from deploy.local.cluster import LocalCluster
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, log_directory, serving_cluster

pytestmark = pytest.mark.real

TOPIC = "compared"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path_factory.mktemp("cluster") / "c", controllers=1, brokers=3) as running:
        klamm(running, "topics", "create", TOPIC, "--partitions", "2", "--replication-factor", "3")
        numbers = "\n".join(map(str, range(20_000)))
        klamm(running, "produce", TOPIC, "--no-keys", "--batch-size", "2000", stdin=numbers)
        yield running


def test_replicas_are_compared_and_what_differs_or_is_missing_is_named(cluster: LocalCluster) -> None:
    def equal_until() -> int:
        equal = as_json(cluster, "verify", "replicas", TOPIC)
        assert equal["verdict"] == "equal"
        assert all(p["replicas"] == [1, 2, 3] for p in equal["partitions"])
        return sum(p["to_offset"] for p in equal["partitions"])

    eventually(lambda: equal_until() == 20_000, "the followers know that all records are committed")

    log = log_directory(cluster, 2) / f"{TOPIC}-1" / f"{0:020}.log"
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    found = as_json(cluster, "verify", "replicas", codes=(3,))
    assert found["verdict"] == "different"
    intact, damaged = found["partitions"]
    assert intact["difference"] is None
    assert (damaged["difference"]["right"], damaged["difference"]["wrong"]) == ([1, 3], [2])
    assert 0 < damaged["difference"]["offset"] == damaged["to_offset"]

    cluster.kill(f"{BROKER}-2")
    rest = as_json(cluster, "verify", "replicas", TOPIC, "--timeout", "5", codes=(4,))
    assert rest["verdict"] == "incomplete"
    assert [[u["broker"] for u in p["unread"]] for p in rest["partitions"]] == [[2], [2]]
    assert "broker 2 not read" in klamm(cluster, "verify", "replicas", TOPIC, "--timeout", "5", code=4).stdout
