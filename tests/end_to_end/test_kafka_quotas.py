"""Quotas of changes that Kafka's own tool sets, kept by the controller for clients of Kafka brokers."""

import asyncio
from pathlib import Path

import pytest

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import ClusterError, ErrorCode
from tests.kafka.clusters import KafkaCluster, kafka_cluster
from tests.kafka.tools import Verb, run
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(300)]

TAKES_OVER = {"klamm.takeover": "atomic", "zookeeper.session.timeout.ms": 6000}
STRICT, PERMISSIVE = 7, 5


async def create(address: str, topic: str, client_id: str, version: int) -> tuple[int, int]:
    """At a Kafka listener; the code, and the throttle time in ms."""
    host, _, port = address.rpartition(":")
    connection = await KafkaConnection.open(Endpoint(host, int(port), "PLAINTEXT"), client_id=client_id, timeout_s=10)
    try:
        topics = (CreatableTopic(name=topic, num_partitions=20, replication_factor=1),)
        wanted = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        answer = await connection.call(wanted, version, CreateTopicsResponse, timeout_s=60)
        return answer.topics[0].error_code, answer.throttle_time_ms
    finally:
        connection.close()


def is_created(address: str, topic: str, client_id: str) -> bool:
    try:
        code, _ = asyncio.run(create(address, topic, client_id, STRICT))
    except ClusterError:
        return False
    return code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def configs(cluster: KafkaCluster, folder: Path, at: str, *arguments: str) -> str:
    verb = Verb("quota", "configs", ("--bootstrap-server", at, "--entity-type", "clients", *arguments))
    result = run(cluster.version, verb, folder)
    assert result.code == 0, result
    return "\n".join(result.lines)


@pytest.mark.rule("MQ-1", "MQ-2", "MQ-3", "D-84")
def test_a_quota_that_kafka_configs_sets_is_kept_by_the_controller(tmp_path: Path, zookeeper: str) -> None:
    with kafka_cluster(tmp_path, zookeeper, 1) as cluster:
        cluster.start_candidate(901, **TAKES_OVER)
        at = cluster.controllers[901]
        eventually(lambda: is_created(at, "first", "other"), "the candidate takes over")
        quota = ("--entity-name", "app")
        # At klamm's listener the request is passed on to a broker.
        configs(cluster, tmp_path, at, *quota, "--alter", "--add-config", "controller_mutation_rate=1.5")
        assert "controller_mutation_rate=1.5" in configs(cluster, tmp_path, at, *quota, "--describe")
        assert asyncio.run(create(at, "a", "app", STRICT)) == (ErrorCode.NONE, 0)
        code, throttle_ms = asyncio.run(create(at, "b", "app", STRICT))
        assert (code, throttle_ms > 0) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
        assert throttle_ms < 3.5 / 1.5 * 1000 + 1
        code, throttle_ms = asyncio.run(create(at, "b", "app", PERMISSIVE))
        assert (code, throttle_ms > 10_000) == (ErrorCode.NONE, True)
        assert asyncio.run(create(at, "c", "other", STRICT)) == (ErrorCode.NONE, 0)
        configs(cluster, tmp_path, at, *quota, "--alter", "--delete-config", "controller_mutation_rate")
        eventually(lambda: is_created(at, "d", "app"), "the quota is gone")
