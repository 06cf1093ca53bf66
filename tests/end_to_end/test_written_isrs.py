"""Real processes below protocol version 2.7: leaders write ISR changes to ZooKeeper, announce them, and a controller
takes the announcements; then every node is raised to 2.7 and lowered again, one after the other, under load.
"""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from cluster.process.local_cluster import BROKER, CONTROLLER
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION
from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from state_log.causes import ISR_GRANTED, ISR_WRITTEN, READ_FROM_LEADER
from state_log.reader import read_state_changes
from state_log.record import Kind, LoggedStateChange
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.commands import as_json, klamm, run_klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]

PROTOCOL = "inter.broker.protocol.version"
SETTINGS = {PROTOCOL: "2.6", "replica.lag.time.max.ms": 1500, "zookeeper.session.timeout.ms": 18_000}
"""Whoever hangs is out of the ISR long before its session ends, so that it is the leader who sees to it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("written") / "c"
    with serving_cluster(folder, controllers=2, brokers=3, settings=SETTINGS) as running:
        klamm(running, "topics", "create", "orders", "--partitions", "1", "--replication-factor", "3")
        yield running


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> Iterator[KazooClient]:
    with plain_client(cluster.state.zookeeper) as client:
        yield client


def state(zookeeper: KazooClient) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zookeeper.get("/brokers/topics/orders/partitions/0/state")[0])
    return found


def follower(zookeeper: KazooClient) -> int:
    """Any follower in the ISR."""
    now = state(zookeeper)
    return next(broker for broker in now["isr"] if broker != now["leader"])


def shown_isr(cluster: LocalCluster) -> set[int]:
    """As the controller has it."""
    return set(partitions(cluster, "orders")[0]["isr"])


def records(cluster: LocalCluster) -> list[LoggedStateChange]:
    folders = as_json(cluster, "status")["state_change_logs"]
    return list(read_state_changes([Path(folder) for folder in folders]))


def written_isrs(cluster: LocalCluster) -> list[set[int]]:
    """The ISRs that leaders recorded to have written."""
    found = [r for r in records(cluster) if r.cause is not None and r.cause.event == ISR_WRITTEN]
    return [set(r.isr or ()) for r in found]


def produce(cluster: LocalCluster, count: int, acks: str = "1") -> None:
    assert klamm(cluster, "produce", "orders", "--count", str(count), "--acks", acks).stdout.split()[-1] == str(count)


@pytest.mark.rule("R8.18", "R8.20", "R8.23", "R8.24", "IS-1", "IS-2", "IS-4")
def test_a_follower_that_hangs_leaves_and_rejoins_and_the_controller_reads_it(
    cluster: LocalCluster, zookeeper: KazooClient
) -> None:
    victim, before = follower(zookeeper), state(zookeeper)
    others = {1, 2, 3} - {victim}
    active = f"controller-{as_json(cluster, 'cluster', 'describe')['controller']['id']}"
    cluster.pause(f"broker-{victim}")
    try:
        # What is announced stays while the controller hangs: it alone deletes it.
        cluster.pause(active)
        try:
            produce(cluster, 10)
            eventually(lambda: set(state(zookeeper)["isr"]) == others, "the leader has taken it out of the ISR")
            eventually(lambda: zookeeper.get_children(ISR_CHANGE_NOTIFICATION), "the change is announced")
            (name,) = zookeeper.get_children(ISR_CHANGE_NOTIFICATION)
            body, stat = zookeeper.get(f"{ISR_CHANGE_NOTIFICATION}/{name}")
            assert json.loads(body) == {"version": 1, "partitions": [{"topic": "orders", "partition": 0}]}
            assert stat.ephemeralOwner == 0
        finally:
            cluster.resume(active)
        eventually(lambda: not zookeeper.get_children(ISR_CHANGE_NOTIFICATION), "the controller has deleted it")
        eventually(lambda: shown_isr(cluster) == others, "the controller has read the state")
    finally:
        cluster.resume(f"broker-{victim}")
    eventually(lambda: len(state(zookeeper)["isr"]) == 3, "it is back in the ISR")
    eventually(lambda: shown_isr(cluster) == {1, 2, 3}, "the controller has heard of that, too")
    after = state(zookeeper)
    kept = ("leader", "leader_epoch", "controller_epoch")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    eventually(lambda: [others, {1, 2, 3}] == written_isrs(cluster)[-2:], "the leader has recorded both")
    read = [r for r in records(cluster) if r.kind is Kind.ISR and r.reason == READ_FROM_LEADER]
    assert [set(r.isr or ()) for r in read[-2:]] == [others, {1, 2, 3}]
    assert not [r for r in records(cluster) if r.cause is not None and r.cause.event == ISR_GRANTED]


@pytest.mark.rule("R8.18", "R8.19", "P18")
def test_a_follower_that_is_killed_leaves_and_rejoins_when_it_is_started_again(
    cluster: LocalCluster, zookeeper: KazooClient
) -> None:
    victim = follower(zookeeper)
    others = {1, 2, 3} - {victim}
    cluster.kill(f"broker-{victim}")
    produce(cluster, 10)
    eventually(lambda: set(state(zookeeper)["isr"]) == others, "the leader has taken it out of the ISR")
    produce(cluster, 10, acks="all")
    eventually(lambda: not zookeeper.exists(f"/brokers/ids/{victim}"), "its session has ended")
    cluster.start(f"broker-{victim}")
    eventually(lambda: len(state(zookeeper)["isr"]) == 3, "it is back in the ISR")
    eventually(lambda: shown_isr(cluster) == {1, 2, 3}, "the controller knows it")
    assert others in written_isrs(cluster)


@pytest.mark.rule("R8.18", "R8.27", "IS-1", "P28")
def test_the_protocol_version_is_raised_and_lowered_by_restarts_under_load(
    cluster: LocalCluster, zookeeper: KazooClient
) -> None:
    names = [[member.name for member in cluster.members(role)] for role in (BROKER, CONTROLLER)]
    stored = len(read_all(cluster))
    is_over = threading.Event()
    acknowledged: list[int] = []

    def load() -> None:
        while not is_over.is_set():
            done = klamm(cluster, "produce", "orders", "--count", "2000", "--acks", "all", "--timeout", str(TIMEOUT_S))
            acknowledged.append(int(done.stdout.split()[-1]))

    producer = threading.Thread(target=load)
    producer.start()
    try:
        for version, order in (("2.7", [*names[0], *names[1]]), ("2.6", [*names[1], *names[0]])):
            LocalCluster.create_or_open(cluster.folder, settings={PROTOCOL: version})
            for name in order:
                cluster.stop(name)
                cluster.start(name)
                wait_until_serving(cluster, TIMEOUT_S)
                eventually(lambda: len(state(zookeeper)["isr"]) == 3, f"all are in sync after the restart of {name}")
            events = {r.cause.event for r in records(cluster) if r.cause is not None}
            assert version == "2.6" or ISR_GRANTED in events, "the controller was asked meanwhile"
    finally:
        is_over.set()
        producer.join()
    assert len(acknowledged) > len(names[0]) + len(names[1]), "records were produced all the time"
    assert set(acknowledged) == {2000}
    # A record whose acknowledgement was lost with its leader is sent, and may be stored, again.
    assert len(read_all(cluster)) >= stored + sum(acknowledged)
    eventually(lambda: not zookeeper.get_children(ISR_CHANGE_NOTIFICATION), "every announcement was taken")


def read_all(cluster: LocalCluster) -> list[str]:
    return klamm(cluster, "consume", "orders", "--from-beginning", "--until-end").stdout.splitlines()


def test_the_audit_finds_nothing_in_all_of_this(cluster: LocalCluster, tmp_path: Path) -> None:
    logs = [f"--log-dir={folder}" for folder in as_json(cluster, "status")["state_change_logs"]]
    audit = run_klamm("audit", "run", *logs, "--once", "-o", "json", "--output", str(tmp_path / "report"))
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert json.loads(audit.stdout)["findings"] == {}
