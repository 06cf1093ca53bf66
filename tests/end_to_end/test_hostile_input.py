"""Requests and znodes beyond their bounds, on real processes: nobody ends, and a repair is enough."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.requests.control import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
)
from cluster.rpc.client import RpcClient
from deploy.local.cluster import LocalCluster
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster

pytestmark = pytest.mark.real

NAMES = ("a" * 300, "", ".", "../outside/x")
GARBAGE = b'{"version":1,"\xff'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path_factory.mktemp("cluster") / "c", controllers=2, brokers=2) as running:
        klamm(running, "topics", "create", "t", "--replica-assignment", "1:2")
        yield running


def findings(cluster: LocalCluster) -> list[str]:
    found = as_json(cluster, "cluster", "health", codes=(0, 3))["findings"]
    return [f"{f['kind']} {f['detail']}" for f in found if f["kind"] in {"malformed_znode", "unacceptable_directory"}]


async def ask(address: str, request: object) -> object:
    client = RpcClient()
    try:
        return await client.call(address, request, 10_000)
    finally:
        await client.close()


@pytest.mark.rule("BD-1", "BD-3")
def test_anonymous_control_requests_neither_end_a_broker_nor_leave_its_log_directory(cluster: LocalCluster) -> None:
    described = as_json(cluster, "cluster", "describe")
    (address,) = [
        b["control"] for b in as_json(cluster, "status")["brokers"] if b["id"] == described["brokers"][0]["id"]
    ]
    epoch = ControllerEpoch(described["controller"]["epoch"])
    outside = cluster.folder.parent / "outside"
    kept = outside / "x-7"
    kept.mkdir(parents=True)
    one = BrokerId(described["brokers"][0]["id"])
    state = LeaderAndIsrPartitionState(7, epoch, one, LeaderEpoch(0), (one,), PartitionEpoch(0), (one,))
    before = sorted(cluster.folder.parent.rglob("*-7"))
    for name in (*NAMES, f"../../../../{outside.name}/x"):
        topics = (LeaderAndIsrTopicState(name, None, (state,)),)
        request = LeaderAndIsrRequest(ControllerId(1001), epoch, BrokerEpoch(-1), topics)
        response = asyncio.run(ask(address, request))
        assert response.partition_errors[0].error_code is ErrorCode.INVALID_TOPIC_EXCEPTION  # type: ignore[attr-defined]
        stop = (StopReplicaPartitionState(name, 7, LeaderEpoch(-2), delete_partition=True),)
        asyncio.run(ask(address, StopReplicaRequest(ControllerId(1001), epoch, BrokerEpoch(-1), stop)))
    assert sorted(cluster.folder.parent.rglob("*-7")) == before
    assert all(cluster.state_of(f"broker-{b}") == "running" for b in (1, 2))


@pytest.mark.rule("BD-5", "BD-6")
def test_bad_znodes_are_findings_and_their_repair_is_enough(cluster: LocalCluster) -> None:
    state = "/brokers/topics/t/partitions/0/state"
    with plain_client(cluster.state.zookeeper) as zookeeper:
        good = {path: zookeeper.get(path)[0] for path in ("/brokers/topics/t", state)}
        long = f"/brokers/topics/{'a' * 300}"
        zookeeper.create(long, good["/brokers/topics/t"])
        eventually(lambda: any("aaa" in finding for finding in findings(cluster)), "the long name is a finding")
        for path in good:
            zookeeper.set(path, GARBAGE)
        epoch = as_json(cluster, "cluster", "describe")["controller"]["epoch"]
        zookeeper.delete("/controller")
        eventually(
            lambda: as_json(cluster, "cluster", "describe", codes=(0, 1)).get("controller", {}).get("epoch", 0) > epoch,
            "a failover",
        )
        eventually(lambda: any("/brokers/topics/t:" in finding for finding in findings(cluster)), "the topic, too")
        klamm(cluster, "topics", "create", "other", "--replica-assignment", "1:2")
        for path, data in good.items():
            zookeeper.set(path, data)
        zookeeper.create("/admin/delete_topics/" + "a" * 300)
        eventually(lambda: not findings(cluster), "all is repaired")
        assert zookeeper.exists(long) is None
    eventually(lambda: [p["leader"] for p in partitions(cluster, "t")] == [1], "the topic is led again")
    klamm(cluster, "produce", "t", stdin="1\n2\n")
    assert all(cluster.state_of(f"broker-{b}") == "running" for b in (1, 2))


@pytest.mark.rule("BD-4")
def test_a_broker_starts_beside_a_directory_that_cannot_be_a_partition(cluster: LocalCluster) -> None:
    folder = Path(as_json(cluster, "status")["brokers"][0]["log_dirs"][0])
    bad = folder / "-0"
    bad.mkdir()
    (bad / "kept").write_text("kept")
    cluster.stop("broker-1")
    cluster.start("broker-1")
    eventually(lambda: any("'-0' cannot be a partition" in finding for finding in findings(cluster)), "a finding")
    assert (bad / "kept").read_text() == "kept"
    assert cluster.state_of("broker-1") == "running"
