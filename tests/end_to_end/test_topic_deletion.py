"""Topics that go, grow and change on a real cluster, with a broker down: by command, and by plain ZooKeeper client."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from deploy.local.cluster import LocalCluster
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.commands import LAUNCHER, as_json, klamm
from tests.processes.local_clusters import eventually, serving_cluster

pytestmark = pytest.mark.real

TOPICS = [f"doomed-{n}" for n in range(20)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path_factory.mktemp("deleting") / "c", controllers=1, brokers=3) as running:
        yield running


@pytest.fixture
def tool(cluster: LocalCluster) -> Iterator[KazooClient]:
    with plain_client(cluster.state.zookeeper) as client:
        yield client


def directories(cluster: LocalCluster, broker: int, prefix: str) -> set[str]:
    """Log directories of the topics on the broker, those that are only renamed so far included."""
    return {name for name in os.listdir(cluster.folder / "data" / f"broker-{broker}") if name.startswith(prefix)}


def create(cluster: LocalCluster, *topics: str) -> None:
    for topic in topics:
        klamm(
            cluster, "topics", "create", topic, "--partitions", "3", "--replication-factor", "3",
            "--config", "file.delete.delay.ms=100",
        )  # fmt: skip


def describe(cluster: LocalCluster, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = as_json(cluster, "topics", "describe", topic)["topics"][0]
    return found


@pytest.mark.rule("TD-13", "TD-15", "BK-16", "TP-3", "R4.3", "R10.9")
def test_topic_deletion_completes_when_a_dead_broker_is_back(cluster: LocalCluster, tool: KazooClient) -> None:
    create(cluster, TOPICS[0], "kept")
    body, _ = tool.get(f"/brokers/topics/{TOPICS[0]}")
    config, _ = tool.get(f"/config/topics/{TOPICS[0]}")
    for topic in TOPICS[1:]:
        # As a tool of Kafka's would; the controller gives it an id.
        assignment = json.loads(body)["partitions"]
        tool.create(f"/config/topics/{topic}", config)
        tool.create(f"/brokers/topics/{topic}", json.dumps({"version": 1, "partitions": assignment}).encode())
    for broker in (1, 2, 3):
        eventually(lambda: len(directories(cluster, broker, "doomed-")) == 60, "all replicas exist")  # noqa: B023
    cluster.kill("broker-3")
    eventually(lambda: tool.exists("/brokers/ids/3") is None, "broker 3 is gone")
    klamm(cluster, "topics", "delete", *TOPICS, "--yes", "--no-wait")
    for broker in (1, 2):
        eventually(lambda: not directories(cluster, broker, "doomed-"), "living replicas are deleted")  # noqa: B023

    def says_why() -> bool:
        pending = klamm(cluster, "topics", "delete", TOPICS[0], "--yes", "--timeout", "5", code=1)
        return "broker 3 is not alive" in pending.stdout

    eventually(says_why, "the command tells what it waits for")
    assert sorted(tool.get_children("/admin/delete_topics")) == sorted(TOPICS)
    cluster.start("broker-3")
    for path in ("/brokers/topics", "/config/topics"):
        eventually(lambda: not {*TOPICS} & {*tool.get_children(path)}, f"{path} is tidy")  # noqa: B023
    eventually(lambda: tool.get_children("/admin/delete_topics") == [], "no marker is left")
    eventually(lambda: not directories(cluster, 3, "doomed-"), "the last replicas are deleted")
    assert all(len(directories(cluster, broker, "kept-")) == 3 for broker in (1, 2, 3))
    create(cluster, TOPICS[0])
    again = describe(cluster, TOPICS[0])
    assert again["topic_id"] != json.loads(body)["topic_id"]
    assert {p["leader_epoch"] for p in again["partitions"]} == {0}


@pytest.mark.rule("TP-2", "TP-23")
def test_a_topic_grows_by_command_and_by_hand(cluster: LocalCluster, tool: KazooClient) -> None:
    create(cluster, "growing")
    klamm(cluster, "topics", "alter", "growing", "--partitions", "4")
    assert [p["leader"] >= 0 for p in describe(cluster, "growing")["partitions"]] == [True] * 4
    body, stat = tool.get("/brokers/topics/growing")
    znode = json.loads(body)
    znode["partitions"]["4"] = [2, 1]
    tool.set("/brokers/topics/growing", json.dumps(znode).encode(), stat.version)
    eventually(lambda: len(describe(cluster, "growing")["partitions"]) == 5, "the controller has seen it")
    eventually(lambda: describe(cluster, "growing")["partitions"][4]["leader"] == 2, "the new partition is led")
    eventually(lambda: directories(cluster, 1, "growing-4"), "and hosted")


@pytest.mark.rule("EP-30", "EP-34")
def test_settings_altered_by_command_can_be_read_by_any_tool(cluster: LocalCluster, tool: KazooClient) -> None:
    create(cluster, "changing")
    klamm(cluster, "topics", "alter", "changing", "--config", "retention.ms=60000")
    klamm(cluster, "topics", "alter", "changing", "--delete-config", "file.delete.delay.ms")
    klamm(cluster, "brokers", "alter", "default", "--config", "unclean.leader.election.enable=true")
    assert json.loads(tool.get("/config/topics/changing")[0]) == {"version": 1, "config": {"retention.ms": "60000"}}
    assert json.loads(tool.get("/config/brokers/<default>")[0]) == {
        "version": 1,
        "config": {"unclean.leader.election.enable": "true"},
    }
    names = sorted(tool.get_children("/config/changes"))
    announced = [json.loads(tool.get(f"/config/changes/{name}")[0])["entity_path"] for name in names]
    assert announced[-3:] == ["topics/changing", "topics/changing", "brokers/<default>"]
    assert describe(cluster, "changing")["configs"] == {"retention.ms": "60000"}


def test_a_deletion_that_waits_for_a_broker_that_never_was_ends_once_one_of_its_id_starts(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    created = klamm(cluster, "topics", "create", "misplaced", "--replica-assignment", "1:2,9:1")
    assert "warning: no broker 9 is registered; its replicas are offline until it starts" in created.stderr
    klamm(cluster, "topics", "delete", "misplaced", "--yes", "--no-wait")

    def names_the_broker() -> bool:
        again = klamm(cluster, "topics", "create", "misplaced", code=1)
        return "topic misplaced is still being deleted: replicas offline on broker 9" in again.stderr

    eventually(names_the_broker, "its name is refused with the reason")
    move = {"topic": "misplaced", "partition": 1, "replicas": [1, 2]}
    plan = json.dumps({"version": 1, "partitions": [move]})
    assert "The topic is being deleted" in klamm(cluster, "reassign", "execute", "-", stdin=plan, code=1).stdout
    address = ("--zookeeper", cluster.state.zookeeper, "--listen", "127.0.0.1:0", "--data", str(tmp_path))
    with subprocess.Popen([*LAUNCHER, "broker", "--id", "9", *address], stderr=subprocess.DEVNULL) as broker:
        klamm(cluster, "topics", "delete", "misplaced", "--yes", "--timeout", "60")
        broker.terminate()
