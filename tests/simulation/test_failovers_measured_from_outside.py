"""The audit's times of failovers are those that an observer of ZooKeeper and of the brokers measures.

Compared are, of a broker: from the moment its registration is gone in ZooKeeper to the moment when a living broker
tells clients another leader for each partition; the audit has it from the record of its death to the last record of a
leader that took its role. Before that, from its crash on, its followers have no answer for as long as its session
lasts. Of a controller: the moments when the one before is gone, and when it first says that it is active, and those
that it recorded. The observer polls every millisecond of virtual time.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import FAILOVERS_TABLE, SESSIONS_TABLE, TERMS_TABLE
from cluster.model.broker import NO_LEADER, BrokerId
from cluster.requests.data import MetadataRequest, MetadataResponse
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from simulator.cluster import SimulatedCluster, simulate
from simulator.memory_state_log import write_segment
from state_log.writer import SegmentName
from tests.audits.log_audits import audit_folder

TOLERANCE_MS = 50
FETCH_WAIT_MS = 500
PARTITIONS = 6
VICTIM = BrokerId(1)


async def first_moment(cluster: SimulatedCluster, condition: Callable[[], bool]) -> int:
    """When the condition held first, polled every millisecond."""
    for _ in range(60_000):
        if condition():
            return cluster.clock.now_ms()
        await asyncio.sleep(0.001)
    raise TimeoutError


async def until_all_led_by_others(cluster: SimulatedCluster) -> int:
    """When a living broker tells clients another leader for each partition."""
    while True:
        answer = await cluster.network.call("client", cluster.agents[BrokerId(2)].address, MetadataRequest(("orders",)))
        assert isinstance(answer, MetadataResponse)
        leaders = [p.leader_id for topic in answer.topics for p in topic.partitions]
        if len(leaders) == PARTITIONS and not {VICTIM, NO_LEADER} & set(leaders):
            return cluster.clock.now_ms()
        await asyncio.sleep(0.001)


async def measured(seed: int, logs: Path) -> dict[str, int]:
    """A broker and a controller die; the times from outside, in ms since 1970. Writes the logs."""
    cluster = SimulatedCluster(seed, controllers=2, brokers=3)
    cluster.start_all()
    await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
    await cluster.until(lambda: len(cluster.zookeeper.tree.children("/brokers/ids") or ()) == 3, "three brokers")
    first = cluster.active_controller()
    assert first is not None
    replicas = {p: (BrokerId(1 + p % 2), BrokerId(2 + p % 2), BrokerId(3 - 2 * (p % 2))) for p in range(PARTITIONS)}
    topic = NewTopic("orders", assignments=replicas)
    await cluster.network.call("client", first.address, CreateTopicsRequest((topic,)))
    await asyncio.sleep(5)
    crashed = cluster.clock.now_ms()
    cluster.agents[VICTIM].crash()
    gone = await first_moment(cluster, lambda: cluster.zookeeper.tree.get(f"/brokers/ids/{VICTIM}") is None)
    led = await until_all_led_by_others(cluster)
    await asyncio.sleep(5)
    first.crash()
    vacant = await first_moment(cluster, lambda: cluster.zookeeper.tree.get("/controller") is None)
    active = await first_moment(cluster, lambda: cluster.active_controller() not in {None, first})
    await asyncio.sleep(5)
    await cluster.stop_all()
    for node in cluster.nodes:
        for incarnation in node.incarnations:
            log = incarnation.log
            write_segment(logs / log.node, SegmentName(log.node, log.incarnation, 0), log.lines)
    return {"crashed": crashed, "gone": gone, "led": led, "vacant": vacant, "active": active}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_failovers_last_as_long_as_measured_from_outside(seed: int, tmp_path: Path) -> None:
    outside = simulate(lambda: measured(seed, tmp_path / "logs"))
    audit_folder(tmp_path / "logs", tmp_path / "output")
    folder = OutputFolder(tmp_path / "output")
    (failover,) = (row for row in folder.current_rows(FAILOVERS_TABLE) if row["brokers"] == [VICTIM])
    assert failover["partitions"] == PARTITIONS // 2
    assert (failover["not_elected"], failover["not_taken"]) == (0, 0)
    assert failover["leaderless_max_ms"] == failover["last_taken_ms"] - failover["detected_ms"]
    assert abs(failover["leaderless_max_ms"] - (outside["led"] - outside["gone"])) <= TOLERANCE_MS
    assert abs(failover["detected_ms"] - outside["gone"]) <= TOLERANCE_MS
    # While it lived it answered each half second at least.
    assert 0 <= outside["crashed"] - failover["answered_ms"] <= FETCH_WAIT_MS + TOLERANCE_MS
    assert failover["waited_max_ms"] >= outside["led"] - outside["crashed"] - TOLERANCE_MS
    (session,) = (row for row in folder.current_rows(SESSIONS_TABLE) if row["broker"] == VICTIM)
    assert session["ended"] == "died"
    assert abs(session["until_ms"] - outside["gone"]) <= TOLERANCE_MS
    terms = folder.current_rows(TERMS_TABLE)
    assert [term["ended"] for term in terms] == ["replaced", "resigned"]
    assert abs(terms[-1]["from_ms"] - outside["active"]) <= TOLERANCE_MS
    assert abs(terms[-1]["vacant_ms"] - outside["vacant"]) <= TOLERANCE_MS
    assert terms[-1]["from_ms"] <= terms[-1]["loaded_ms"]
