"""Topic ids on real brokers of Apache Kafka, after kafka-topics.sh of 2.4.1 has written a topic znode (KAFKA-14190)."""

import asyncio
import json
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from deploy.local.kafka_clients import View, create_topics, until_all_see
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.broker import kafka_class_path
from tests.kafka.clusters import KafkaCluster
from tests.kafka.tools import tool_command
from tests.processes.commands import run_klamm
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

KLAMM, BROKERS, TOPIC = 901, 3, "t"
SETTINGS = {
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 1,
    "auto.create.topics.enable": False,
    # There is no controller while they stop.
    "controlled.shutdown.enable": False,
}
OLD_TOOL = "2.4.1"
WHOLE_S = 120


class Cluster:
    """Three brokers under klamm, with one topic of three replicas."""

    def __init__(self, folder: Path, zookeeper: str, version: str) -> None:
        self.kafka, self._folder = KafkaCluster(folder, zookeeper, version), folder

    def start(self) -> str:
        """The id of the topic."""
        self.kafka.start_brokers(BROKERS, SETTINGS)
        self.start_klamm()
        self.until(lambda view: view.controller == KLAMM, topics=[])
        assert asyncio.run(create_topics(self.kafka.controllers[KLAMM], {TOPIC: 1}, BROKERS)) == [0]
        self.until_in_sync(BROKERS, 1)
        known = self.topic()["topic_id"]
        assert isinstance(known, str)
        return known

    def start_klamm(self) -> None:
        # Brokers are not to rule while it does not.
        self.kafka.start_candidate(KLAMM, **{"klamm.takeover": "persistent"})

    def kill_klamm(self) -> None:
        self.kafka.kill(f"controller-{KLAMM}")

    def stop_brokers(self) -> None:
        for broker in self.kafka.brokers:
            self.kafka.stop(f"kafka-{broker}")

    def restart_brokers(self) -> None:
        for broker in self.kafka.brokers:
            self.kafka.start_broker(broker, SETTINGS)

    def add_partition_with_old_tool(self) -> None:
        arguments = ("--zookeeper", self.kafka.zookeeper, "--alter", "--topic", TOPIC, "--partitions", "2")
        command = tool_command(OLD_TOOL, "topics", arguments, self._folder)
        subprocess.run(command, check=True, capture_output=True, timeout=WHOLE_S)

    def topic(self) -> Any:
        with plain_client(self.kafka.zookeeper) as client:
            return json.loads(client.get(f"/brokers/topics/{TOPIC}")[0])

    def noted_ids(self) -> list[str]:
        """What the log directories of the brokers say."""
        files = self._folder.glob(f"kafka-*/data/{TOPIC}-0/partition.metadata")
        return [file.read_text().split()[-1] for file in files]

    def write_id(self, topic_id: str) -> None:
        with plain_client(self.kafka.zookeeper) as client:
            body = self.topic() | {"version": 3, "topic_id": topic_id}
            client.set(f"/brokers/topics/{TOPIC}", json.dumps(body).encode())

    def kill_leader(self) -> None:
        with plain_client(self.kafka.zookeeper) as client:
            leader = json.loads(client.get(f"/brokers/topics/{TOPIC}/partitions/0/state")[0])["leader"]
        self.kafka.kill(f"kafka-{leader}")
        del self.kafka.brokers[leader]

    def until(self, condition: Any, topics: list[str] | None = None) -> None:
        async def wait() -> None:
            async with asyncio.timeout(WHOLE_S):
                await until_all_see(list(self.kafka.brokers.values()), [TOPIC] if topics is None else topics, condition)

        asyncio.run(wait())

    def until_in_sync(self, replicas: int, partitions: int) -> None:
        def is_so(view: View) -> bool:
            in_sync = all(len(partition.isr_nodes) == replicas for partition in view.partitions)
            return len(view.partitions) == partitions and in_sync

        self.until(is_so)

    def produce(self, *partitions: int) -> None:
        """With acks=all."""

        async def send() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=list(self.kafka.brokers.values()), acks="all")
            await producer.start()
            try:
                async with asyncio.timeout(30):
                    for partition in partitions:
                        await producer.send_and_wait(TOPIC, b"x", partition=partition)
            finally:
                await producer.stop()

        asyncio.run(send())

    def findings(self) -> list[str]:
        listen = tomllib.loads((self._folder / f"controller-{KLAMM}.toml").read_text())["listen"]
        answer = run_klamm("cluster", "health", "--bootstrap", listen, "-o", "json")
        return [found["detail"] for found in json.loads(answer.stdout)["findings"] if found["kind"] == "topic_id_lost"]

    def refusals(self) -> list[str]:
        logs = "".join(self.kafka.log(f"kafka-{broker}") for broker in range(1, BROKERS + 1))
        logs += "".join(path.read_text() for path in self._folder.glob("kafka-*/logs/state-change.log"))
        return [line for line in logs.splitlines() if "does not match the topic I" in line]


@pytest.fixture(params=["3.9.1", "2.8.2"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, zookeeper: str) -> Iterator[Cluster]:
    kafka_class_path(OLD_TOOL)
    cluster = Cluster(tmp_path, zookeeper, request.param)
    try:
        yield cluster
    finally:
        cluster.kafka.end()


@pytest.mark.parametrize("rules", [True, False], ids=["klamm rules", "nobody rules"])
def test_a_topic_keeps_its_id_and_takes_records_after_its_leaders_death(cluster: Cluster, rules: bool) -> None:
    known = cluster.start()
    if not rules:
        cluster.kill_klamm()
    cluster.add_partition_with_old_tool()
    if rules:
        eventually(lambda: cluster.topic().get("topic_id") == known, "the id is back")
        cluster.kill_klamm()
    else:
        assert "topic_id" not in cluster.topic()
    cluster.start_klamm()
    cluster.until_in_sync(BROKERS, 2)
    eventually(lambda: cluster.topic().get("topic_id") == known, "the id is back")
    cluster.kill_leader()
    cluster.until_in_sync(BROKERS - 1, 2)
    cluster.produce(0, 1)
    assert cluster.findings() == []
    assert cluster.refusals() == []


def test_restarted_brokers_do_not_tell_the_id_and_no_other_is_invented(cluster: Cluster) -> None:
    """Their metadata have none, their logs have. A leader of 3.3 or later names it when it proposes an ISR; else an
    operator copies it, and meanwhile the topic works without.
    """
    known = cluster.start()
    # Brokers of 2.8 note the id with the second request about a partition, that of the next controller.
    cluster.kill_klamm()
    cluster.start_klamm()
    eventually(lambda: cluster.noted_ids() == [known] * BROKERS, "every broker has noted the id")
    cluster.kill_klamm()
    cluster.add_partition_with_old_tool()
    cluster.stop_brokers()
    cluster.restart_brokers()
    cluster.start_klamm()
    cluster.until_in_sync(BROKERS, 2)
    cluster.produce(0, 1)
    eventually(lambda: cluster.findings() or "topic_id" in cluster.topic(), "asked")
    for detail in cluster.findings():
        assert "has it under an id that only its log directories say" in detail
        assert "topic_id" not in cluster.topic()
        cluster.write_id(known)
    eventually(lambda: cluster.findings() == [], "the id is taken over")
    assert cluster.topic()["topic_id"] == known
    cluster.kill_leader()
    cluster.until_in_sync(BROKERS - 1, 2)
    cluster.produce(0, 1)
    assert cluster.topic()["topic_id"] == known
