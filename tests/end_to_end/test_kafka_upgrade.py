"""The protocol version of brokers of Apache Kafka is raised under klamm, while producers and a group work."""

import asyncio
from pathlib import Path

import pytest

from deploy.local.kafka_clients import View, create_topics, until_all_see
from launcher.demo.kafka_load import KafkaLoad
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.clusters import KafkaCluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

BROKERS, KLAMM, PARTITIONS = 3, 901, 6
OLD, NEW = "2.6", "3.9"
SAFE = {"min.insync.replicas": 2, "offsets.topic.replication.factor": 3, "auto.create.topics.enable": False}
WHOLE_S = 120


def start_klamm(cluster: KafkaCluster, protocol: str) -> None:
    settings = {"inter.broker.protocol.version": protocol, "klamm.takeover": "atomic"}
    cluster.start_candidate(KLAMM, **settings)


def is_whole(view: View) -> bool:
    """Under klamm, all replicas in sync."""
    in_sync = all(len(partition.isr_nodes) == BROKERS for partition in view.partitions)
    return view.controller == KLAMM and len(view.partitions) == PARTITIONS and in_sync


async def test_a_rolling_upgrade_of_the_protocol_loses_nothing(tmp_path: Path, zookeeper: str) -> None:
    """As docs/kafka-brokers.md says: every broker first, klamm last. Topics have ids from 2.8 on."""
    cluster = KafkaCluster(tmp_path, zookeeper)
    try:
        await asyncio.to_thread(cluster.start_brokers, BROKERS, {**SAFE, "inter.broker.protocol.version": OLD})
        start_klamm(cluster, OLD)
        addresses = list(cluster.brokers.values())

        async def until_whole() -> None:
            async with asyncio.timeout(WHOLE_S):
                await until_all_see(addresses, ["t"], is_whole)

        await until_all_see(addresses, [], lambda view: view.controller == KLAMM)
        assert await create_topics(cluster.controllers[KLAMM], {"t": PARTITIONS}, BROKERS) == [0]
        await until_whole()
        load = KafkaLoad(addresses, "t", PARTITIONS)
        async with load.running():
            for broker in cluster.brokers:
                await asyncio.to_thread(cluster.stop, f"kafka-{broker}")
                cluster.start_broker(broker, {**SAFE, "inter.broker.protocol.version": NEW})
                await until_whole()
            await asyncio.to_thread(cluster.stop, f"controller-{KLAMM}")
            start_klamm(cluster, NEW)
            await until_whole()
            assert await create_topics(cluster.controllers[KLAMM], {"later": 1}, BROKERS) == [0]
            found = await load.finish(WHOLE_S)
    finally:
        cluster.end()
    assert found.acknowledged > 0
    assert (found.anomalies, found.unread) == ({}, 0)
    with plain_client(zookeeper) as client:
        assert all(b'"topic_id"' in client.get(f"/brokers/topics/{topic}")[0] for topic in ("t", "later"))
