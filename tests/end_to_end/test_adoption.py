"""`klamm adopt` and `klamm leave` on real brokers of Apache Kafka, which begin and end under their own controller."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.takeover import AdoptedMode
from tests.commands import run_klamm
from tests.kafka_broker import create_topic
from tests.kafka_clusters import KafkaCluster, kafka_cluster
from tests.plain_zookeeper import plain_client

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: str) -> Iterator[KafkaCluster]:
    with kafka_cluster(tmp_path, zookeeper, brokers=2) as cluster:
        yield cluster


def adopt(cluster: KafkaCluster, *options: str, code: int = 0) -> Any:
    answer = run_klamm("adopt", "--zookeeper", cluster.zookeeper, "-o", "json", *options)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return json.loads(answer.stdout)


def leave(cluster: KafkaCluster, *options: str) -> str:
    answer = run_klamm("leave", "--zookeeper", cluster.zookeeper, *options)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stderr


def holder(cluster: KafkaCluster) -> int:
    with plain_client(cluster.zookeeper) as client:
        data, _ = client.get("/controller")
        return int(json.loads(data)["brokerid"])


@pytest.mark.parametrize("mode", ["atomic", "persistent"])
def test_a_cluster_is_adopted_and_left_again_and_again(cluster: KafkaCluster, mode: AdoptedMode) -> None:
    address = cluster.brokers[1]
    asyncio.run(create_topic(address, "before", 3))
    found = adopt(cluster, "--dry-run")
    assert found["refusals"] == []
    assert [(b["broker"], b["release"], b["protocol"]) for b in found["brokers"]] == [
        (1, "3.4 to 3.9", "3.9-IV0"),
        (2, "3.4 to 3.9", "3.9-IV0"),
    ]
    assert found["controller"] in cluster.brokers
    assert {broker["obeys"] for broker in found["brokers"]} == {found["controller"]}
    with plain_client(cluster.zookeeper) as client:
        assert client.exists("/klamm") is None
    for id_ in (901, 902):
        cluster.start_candidate(id_)
    for number in range(2):
        taken = adopt(cluster, "--execute", "--mode", mode)["took_over"]
        assert taken["controller"] in {901, 902}
        assert set(taken["obeyed_by"].values()) == {taken["controller"]}
        assert holder(cluster) == taken["controller"]
        asyncio.run(create_topic(address, f"adopted-{number}", 2))
        said = leave(cluster)
        assert "all 2 brokers obey" in said
        assert "901, 902 of klamm are registered" in said
        assert holder(cluster) in cluster.brokers
        asyncio.run(create_topic(address, f"left-{number}", 2))
    for id_ in (901, 902):
        cluster.stop(f"controller-{id_}")
    assert "nothing of klamm is left" in leave(cluster)
    with plain_client(cluster.zookeeper) as client:
        assert client.exists("/klamm") is None
        assert client.exists("/controllers") is None
        topics = set(client.get_children("/brokers/topics"))
        assert topics == {"before", "adopted-0", "adopted-1", "left-0", "left-1"}
        for topic in topics:
            assert client.exists(f"/brokers/topics/{topic}/partitions/0/state") is not None
    assert holder(cluster) in cluster.brokers
