"""Moves that go wrong under Kafka's controller, on real brokers under klamm: KAFKA-9478, KAFKA-13972 and KAFKA-14808.

Replication to broker 3 is throttled, so that moves to it stay under way.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cluster.kafka_wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from deploy.local.kafka_clients import connect, elect_preferred, until_all_see
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.clusters import KafkaCluster
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]

BROKERS, KLAMM, THROTTLED = 3, 901, 3
SETTINGS = {"replica.fetch.max.bytes": 2000, "auto.create.topics.enable": False, "offsets.topic.replication.factor": 1}
REASSIGN = "/admin/reassign_partitions"
Targets = Mapping[int, Sequence[int] | None]


class Governed:
    """Three brokers of Kafka's and one controller of klamm's, which rules."""

    def __init__(self, cluster: KafkaCluster, client: KazooClient, folder: Path) -> None:
        self.cluster, self.client, self.folder = cluster, client, folder

    async def start(self) -> None:
        await asyncio.to_thread(self.cluster.start_brokers, BROKERS, SETTINGS)
        self.cluster.start_candidate(KLAMM, **{"klamm.takeover": "atomic", "auto.leader.rebalance.enable": False})
        await until_all_see(self.cluster.brokers.values(), [], lambda view: view.controller == KLAMM)

    def has_topic(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """With records in each partition, and in sync."""
        throttled = ",".join(f"{partition}:{THROTTLED}" for partition in range(len(replicas)))
        config = {"follower.replication.throttled.replicas": throttled}
        self._write(f"/config/topics/{topic}", {"version": 1, "config": config})
        self._announce(f"topics/{topic}")
        partitions = {str(partition): list(brokers) for partition, brokers in enumerate(replicas)}
        self._write(f"/brokers/topics/{topic}", {"version": 1, "partitions": partitions})
        for partition, brokers in enumerate(replicas):
            eventually(
                lambda p=partition, b=brokers: sorted(self.state(topic, p).get("isr", ())) == sorted(b), "in sync"
            )
        asyncio.run(self._produce(topic, len(replicas)))

    def throttle(self, rate: int | None) -> None:
        config = {} if rate is None else {"follower.replication.throttled.rate": str(rate)}
        self._write(f"/config/brokers/{THROTTLED}", {"version": 1, "config": config})
        self._announce(f"brokers/{THROTTLED}")
        time.sleep(2)  # Nothing says that a broker has applied it.

    def state(self, topic: str, partition: int) -> dict[str, Any]:
        """Nothing before the first leader."""
        return self._read(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def assignment(self, topic: str) -> dict[str, Any]:
        return self._read(f"/brokers/topics/{topic}")

    def request(self, targets: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Written as Kafka's tools up to 2.x do."""
        entries = [{"topic": t, "partition": p, "replicas": list(replicas)} for (t, p), replicas in targets.items()]
        self._write(REASSIGN, {"version": 1, "partitions": entries})

    def requested(self) -> set[tuple[str, int]]:
        return {(entry["topic"], entry["partition"]) for entry in self._read(REASSIGN).get("partitions", ())}

    def alter(self, topic: str, targets: Targets) -> list[int]:
        """Through the API; None cancels."""
        return asyncio.run(self._alter(topic, targets))

    def has_folder(self, broker: int, name: str) -> bool:
        return (self.folder / f"kafka-{broker}" / "data" / name).exists()

    async def _alter(self, topic: str, targets: Targets) -> list[int]:
        partitions = tuple(
            ReassignablePartition(partition_index=p, replicas=None if target is None else tuple(target))
            for p, target in targets.items()
        )
        request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=topic, partitions=partitions),))
        connection = await connect(self.cluster.controllers[KLAMM])
        try:
            answer = await connection.call(request, 0, AlterPartitionReassignmentsResponse, timeout_s=60)
        finally:
            connection.close()
        return [partition.error_code for of_topic in answer.responses for partition in of_topic.partitions]

    async def _produce(self, topic: str, partitions: int) -> None:
        addresses = list(self.cluster.brokers.values())
        async with AIOKafkaProducer(bootstrap_servers=addresses, acks="all") as producer:
            for partition in range(partitions):
                for _ in range(200):
                    await producer.send(topic, b"x" * 1000, partition=partition)
            await producer.flush()

    def _read(self, path: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.client.get(path)[0])
        except NoNodeError:
            return {}
        return found

    def _write(self, path: str, content: Mapping[str, Any]) -> None:
        data = json.dumps(content).encode()
        if self.client.exists(path):
            self.client.set(path, data)
        else:
            self.client.create(path, data, makepath=True)

    def _announce(self, entity: str) -> None:
        content = json.dumps({"version": 2, "entity_path": entity}).encode()
        self.client.create("/config/changes/config_change_", content, sequence=True, makepath=True)


def governed(folder: Path, zookeeper: str, version: str) -> Iterator[Governed]:
    cluster = KafkaCluster(folder, zookeeper, version)
    with plain_client(zookeeper) as client:
        try:
            brokers = Governed(cluster, client, folder)
            asyncio.run(brokers.start())
            yield brokers
        finally:
            cluster.end()


@pytest.fixture
def newest(tmp_path: Path, zookeeper: str) -> Iterator[Governed]:
    yield from governed(tmp_path, zookeeper, "3.9.1")


@pytest.fixture(params=["2.8.2", "3.3.2", "3.9.1"])
def each_release(request: pytest.FixtureRequest, tmp_path: Path, zookeeper: str) -> Iterator[Governed]:
    yield from governed(tmp_path, zookeeper, request.param)


@pytest.mark.rule("D-95")
def test_a_move_added_to_a_pending_request_begins_and_completes(newest: Governed) -> None:
    """KAFKA-9478."""
    newest.has_topic("t", [[1, 2], [1, 2]])
    newest.throttle(1)
    newest.request({("t", 0): [1, 3]})
    eventually(lambda: newest.assignment("t").get("adding_replicas", {}).get("0") == [3], "the first move begins")
    time.sleep(3)
    newest.request({("t", 0): [1, 3], ("t", 1): [1, 3], ("nosuch", 0): [1]})
    eventually(lambda: newest.assignment("t")["adding_replicas"].get("1") == [3], "the second move begins")
    eventually(lambda: newest.requested() == {("t", 0), ("t", 1)}, "what cannot begin has left")
    assert [newest.state("t", p)["leader_epoch"] for p in (0, 1)] == [1, 1]
    newest.throttle(None)
    eventually(lambda: not newest.requested() and newest.client.exists(REASSIGN) is None, "both are complete")
    assert newest.assignment("t")["partitions"] == {"0": [1, 3], "1": [1, 3]}
    assert [newest.state("t", p)["leader_epoch"] for p in (0, 1)] == [3, 3]


@pytest.mark.rule("D-96")
def test_a_replica_of_a_cancelled_or_replaced_move_leaves_its_broker(each_release: Governed) -> None:
    """KAFKA-13972: brokers before 3.4.1 ignored the order."""
    brokers = each_release
    brokers.has_topic("t", [[1, 2], [1, 2], [1, 2]])
    brokers.throttle(1)
    assert brokers.alter("t", {p: [1, 3] for p in range(3)}) == [0, 0, 0]
    eventually(lambda: all(brokers.has_folder(3, f"t-{p}") for p in range(3)), "broker 3 has begun")
    time.sleep(3)
    assert brokers.alter("t", {0: None, 1: [2, 1]}) == [0, 0]
    brokers.request({("t", 2): [1, 2]})
    eventually(lambda: not any(brokers.has_folder(3, f"t-{p}") for p in range(3)), "broker 3 has given them up")
    # Not an epoch more than Kafka: one for the beginning, one for the end.
    assert [brokers.state("t", p)["leader_epoch"] for p in range(3)] == [2, 2, 2]
    time.sleep(5)
    assert not any(brokers.has_folder(3, f"t-{p}") for p in range(3))


@pytest.mark.rule("D-96")
def test_a_move_that_is_replaced_while_a_new_replica_leads_keeps_a_leader(newest: Governed) -> None:
    """KAFKA-14808."""
    newest.has_topic("t", [[1], [1]])
    newest.throttle(1)
    assert newest.alter("t", {0: [2, 3], 1: [2, 3]}) == [0, 0]
    eventually(lambda: all(2 in newest.state("t", p)["isr"] for p in (0, 1)), "broker 2 is in sync")
    assert asyncio.run(elect_preferred(newest.cluster.controllers[KLAMM])) == 0
    eventually(lambda: all(newest.state("t", p)["leader"] == 2 for p in (0, 1)), "broker 2 leads")
    assert newest.alter("t", {0: [1, 3]}) == [0]
    newest.request({("t", 1): [1, 3]})
    eventually(lambda: newest.assignment("t")["partitions"]["1"] == [1, 3], "both are replaced")
    assert [(newest.state("t", p)["leader"], newest.state("t", p)["isr"]) for p in (0, 1)] == [(1, [1])] * 2
    asyncio.run(newest._produce("t", 2))
    newest.throttle(None)
    eventually(lambda: newest.client.exists(REASSIGN) is None, "the moves are complete")
    assert newest.assignment("t")["partitions"] == {"0": [1, 3], "1": [1, 3]}
    eventually(lambda: not any(newest.has_folder(2, f"t-{p}") for p in (0, 1)), "broker 2 has given them up")
