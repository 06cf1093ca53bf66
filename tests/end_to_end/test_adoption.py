"""`klamm adopt` and `klamm leave` on real brokers of Apache Kafka, which begin and end under their own controller."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from cluster.model.takeover import AdoptedMode
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.broker import create_topic
from tests.kafka.clusters import KafkaCluster, kafka_cluster
from tests.processes.commands import run_klamm
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: str) -> Iterator[KafkaCluster]:
    with kafka_cluster(tmp_path, zookeeper, brokers=2) as cluster:
        yield cluster


def adopt(cluster: KafkaCluster, *options: str, code: int = 0) -> Any:
    answer = run_klamm("adopt", "--zookeeper", cluster.zookeeper, "-o", "json", *options)
    found = json.loads(answer.stdout)
    assert answer.returncode == code, f"{found['refusals']} {found['took_over']} {answer.stderr}"
    return found


def adopt_code(cluster: KafkaCluster) -> int:
    return run_klamm("adopt", "--zookeeper", cluster.zookeeper, "-o", "json").returncode


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


@pytest.mark.parametrize(
    ("version", "release", "protocol"),
    [("2.4.1", "2.4 to 2.5", "2.4-IV1"), ("2.8.2", "2.8 to 3.1", "2.8-IV1"), ("3.3.2", "3.2 to 3.3", "3.3-IV3")],
)
def test_brokers_of_each_release_are_known_by_their_answers(
    tmp_path: Path, zookeeper: str, version: str, release: str, protocol: str
) -> None:
    with kafka_cluster(tmp_path, zookeeper, brokers=1, version=version) as cluster:
        found = adopt(cluster)
    assert found["refusals"] == []
    assert [(b["release"], b["protocol"], b["obeys"]) for b in found["brokers"]] == [(release, protocol, 1)]
    asks_for_registration = "klamm.kafka.register.as.broker=true" in found["commands"][0]
    assert asks_for_registration == version.startswith("2.")


def test_a_cluster_with_an_authorizer_is_refused_to_a_controller_without_one_and_left_as_it_is(
    tmp_path: Path, zookeeper: str
) -> None:
    cluster = KafkaCluster(tmp_path, zookeeper)
    authorizer = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": True,
    }
    try:
        cluster.start_brokers(1, authorizer)
        found = adopt(cluster)
        assert "authorizer.class.name=kafka.security.authorizer.AclAuthorizer" in found["commands"][0]
        assert any("give the controllers the same" in note for note in found["notes"])
        cluster.start_candidate(901)
        eventually(lambda: adopt_code(cluster) == 3, "the candidate is registered")
        (refusal,) = adopt(cluster, code=3)["refusals"]
        assert (
            "candidate 901 has no authorizer: through it anybody could do what that of the brokers forbids" in refusal
        )
        assert adopt(cluster, "--execute", code=1)["took_over"] is None
        with plain_client(cluster.zookeeper) as client:
            assert client.exists("/klamm") is None
    finally:
        cluster.end()


_RECORDS = 40_000
_PER_SECOND = 400
_PARTITIONS = 1000
_RETRIABLE = re.compile(
    r"NotLeaderOrFollower|NotCoordinator|CoordinatorLoadInProgress|CoordinatorNotAvailable|LeaderNotAvailable|Timeout"
    r"|Disconnect|Network|RebalanceInProgress"
)


def test_producers_and_consumers_notice_nothing_but_retriable_errors(tmp_path: Path, zookeeper: str) -> None:
    """Kafka's own programs, on 1,000 partitions, while klamm takes over and gives back, again and again."""
    with kafka_cluster(tmp_path, zookeeper, brokers=3) as cluster:
        bootstrap = ",".join(cluster.brokers.values())
        asyncio.run(create_topic(cluster.brokers[1], "load", _PARTITIONS, replicas=3))
        for id_ in (901, 902):
            cluster.start_candidate(id_)
        consumer = ("--bootstrap-server", bootstrap, "--topic", "load", "--group-id", "g", "--reset-policy", "earliest")
        cluster.start_tool("consumer", "verifiable-consumer", consumer)
        producer = (
            *("--topic", "load", "--num-records", str(_RECORDS), "--throughput", str(_PER_SECOND)),
            *("--record-size", "100", "--producer-props", f"bootstrap.servers={bootstrap}", "acks=all"),
        )
        cluster.start_tool("producer", "producer-perf", producer)
        rounds = 0
        while cluster.is_running("producer"):
            mode = ("atomic", "persistent")[rounds % 2]
            assert adopt(cluster, "--execute", "--mode", mode)["took_over"]["controller"] in {901, 902}
            leave(cluster)
            rounds += 1
        assert rounds >= 2
        assert f"{_RECORDS} records sent" in cluster.log("producer")
        eventually(lambda: _consumed(cluster.log("consumer")) >= _RECORDS, "every record is read")
        assert _end_offsets(bootstrap) == _RECORDS
        for tool in ("producer", "consumer"):
            errors = [line for line in cluster.log(tool).splitlines() if "Exception" in line or "ERROR" in line]
            assert [line for line in errors if not _RETRIABLE.search(line)] == []


def _consumed(log: str) -> int:
    found = [json.loads(line) for line in log.splitlines() if '"records_consumed"' in line]
    return sum(event["count"] for event in found)


def _end_offsets(bootstrap: str) -> int:
    async def ask() -> int:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            partitions = [TopicPartition("load", number) for number in range(_PARTITIONS)]
            return sum((await consumer.end_offsets(partitions)).values())
        finally:
            await consumer.stop()

    return asyncio.run(ask())
