"""Automatic leader rebalance on real processes, across a controller failover."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from admin.connecting.client import AdminClient
from cluster.requests.cluster import ClusterEvent
from deploy.local.cluster import LocalCluster
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]

INTERVAL_S = 3
PARTITIONS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(
        tmp_path_factory.mktemp("balance") / "c",
        controllers=2,
        brokers=3,
        settings={"leader.imbalance.check.interval.seconds": INTERVAL_S},
    ) as running:
        yield running


def leaders(cluster: LocalCluster) -> dict[int, int]:
    return {p["partition"]: p["leader"] for p in partitions(cluster, "orders")}


def preferred(cluster: LocalCluster) -> dict[int, int]:
    return {p["partition"]: p["replicas"][0] for p in partitions(cluster, "orders")}


def test_preferred_leaders_are_restored_after_a_broker_and_the_controller_failed(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "orders", "--partitions", str(PARTITIONS), "--replication-factor", "3")
    wanted = preferred(cluster)
    assert leaders(cluster) == wanted
    assert set(wanted.values()) == {1, 2, 3}
    klamm(cluster, "produce", "orders", "--count", "200")
    cluster.kill("broker-1")
    eventually(lambda: 1 not in leaders(cluster).values(), "the others lead")
    active = as_json(cluster, "cluster", "describe")["controller"]["id"]
    cluster.kill(f"controller-{active}")
    cluster.start("broker-1")
    eventually(lambda: leaders(cluster) == wanted, "everybody leads what he is meant to lead")
    assert as_json(cluster, "cluster", "describe")["controller"]["id"] != active
    klamm(cluster, "produce", "orders", "--count", "200")
    cluster.start(f"controller-{active}")


def test_a_follower_is_informed_of_each_leader_that_comes_back(cluster: LocalCluster) -> None:
    wanted = preferred(cluster)
    mine = {partition for partition, broker in wanted.items() if broker == 2}

    async def follow() -> list[ClusterEvent]:
        events: list[ClusterEvent] = []
        back: set[int] = set()
        async with AdminClient(cluster.bootstrap) as client, aclosing(client.watch(["orders"])) as responses:
            first = await anext(responses)
            assert not first.missed
            await asyncio.to_thread(cluster.kill, "broker-2")
            async with asyncio.timeout(TIMEOUT_S):
                async for response in responses:
                    assert not response.missed
                    events += response.events
                    if any(e.kind == "broker_left" for e in response.events):
                        # Not before: its old session would keep it from registering.
                        await asyncio.to_thread(cluster.start, "broker-2")
                    moves = [e for e in response.events if e.kind == "leader_changed"]
                    back = (back | {e.partition for e in moves if e.leader == 2}) - {
                        e.partition for e in moves if e.leader != 2
                    }
                    if back == mine:
                        return events
        raise AssertionError("the stream ended")

    events = asyncio.run(follow())
    kinds = [event.kind for event in events]
    assert kinds.index("broker_left") < kinds.index("broker_joined") < len(kinds)
    assert {e.partition for e in events if e.kind == "isr_changed"} == set(wanted)
    assert leaders(cluster) == wanted
