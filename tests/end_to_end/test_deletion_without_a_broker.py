"""Topics are deleted while a broker is down and while replicas move, on brokers of klamm and of Apache Kafka.

By Kafka's console tools where the brokers are Kafka's, else by klamm's commands. The broker is back after the name was
given to a new topic, and with another controller than the one that deleted the old one.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.process.local_cluster import CONTROLLER
from deploy.local.cluster import LocalCluster
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.broker import kafka_class_path
from tests.kafka.tools import VERSIONS, tool_command
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, log_directory, partitions, serving_cluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

GRACE_MS = 5000
AT_ONCE_S = 20
"""Longer than a tool's JVM takes to start here, and less than the 30 s after which it gives up."""
TOOLS = "3.9.1"
RENAMED = "is renamed to"
CREATED = "Created log for partition t-0"


@pytest.fixture(params=[None, *VERSIONS], ids=lambda version: version or "klamm")
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    version = request.param
    if version is not None:
        kafka_class_path(version)
    settings = {"klamm.delete.topic.absent.broker.grace.ms": GRACE_MS}
    options = {"controllers": 2, "brokers": 3, "kafka": version, "settings": settings}
    with serving_cluster(tmp_path / "cluster", **options) as running:
        yield running


@pytest.mark.rule("D-98", "D-99", "D-101", "D-1", "D-22")
def test_a_name_is_free_without_the_broker_which_deletes_the_old_topic_when_it_is_back(cluster: LocalCluster) -> None:
    folders = {broker: log_directory(cluster, broker) for broker in (1, 2, 3)}
    create(cluster, "t", "1:2:3")
    old_id = topic_id(cluster, "t")
    send(cluster, "t", 500)
    cluster.kill("broker-3")
    eventually(lambda: 3 not in running(cluster), "broker 3 is gone")
    delete(cluster, "t")
    eventually(lambda: "t" not in topics(cluster), "the name is free")
    create(cluster, "t", "1:2:3")
    assert topic_id(cluster, "t") != old_id or old_id is None
    send(cluster, "t", 5)
    a_move_with_a_dead_target(cluster)
    controllers = {member.id: member.name for member in cluster.members(CONTROLLER)}
    active = controllers[as_json(cluster, "cluster", "describe")["controller"]["id"]]
    cluster.kill(active)
    eventually(lambda: len(partitions(cluster, "t")[0]["isr"]) == 2, "the other controller is active")
    before = log_of(cluster, 3)
    cluster.start("broker-3")
    eventually(lambda: len(partitions(cluster, "t")[0]["isr"]) == 3, "broker 3 has the new topic")
    cluster.start(active)
    eventually(lambda: names(folders[3], "t-0") == {"t-0"}, "and nothing else")
    assert size(folders[3]) == size(folders[1]), "with its records only"
    if cluster.state.kafka:
        lines = [line for line in log_of(cluster, 3)[len(before) :].splitlines() if "t-0" in line]
        first = next(n for n, line in enumerate(lines) if RENAMED in line)
        assert first < next(n for n, line in enumerate(lines) if CREATED in line)
        a_throttled_move(cluster, folders)


def a_move_with_a_dead_target(cluster: LocalCluster) -> None:
    create(cluster, "moving", "1:2")
    with plain_client(cluster.state.zookeeper) as zookeeper:
        # Requests refuse a broker that is not there, the znode of older tools does not.
        zookeeper.create("/admin/reassign_partitions", Path(plan(cluster, "moving", 1, 3)).read_bytes())
        eventually(lambda: as_json(cluster, "reassign", "list")["reassignments"], "it is being moved")
        delete(cluster, "moving")
        eventually(lambda: "moving" not in topics(cluster), "its topic is gone without broker 3")
        eventually(lambda: zookeeper.exists("/admin/reassign_partitions") is None, "and so is the move")


def a_throttled_move(cluster: LocalCluster, folders: dict[int, Path]) -> None:
    create(cluster, "slow", "1:2")
    send(cluster, "slow", 4000)
    file = plan(cluster, "slow", 2, 3)
    tool(cluster, "reassign", "--execute", "--reassignment-json-file", file, "--throttle", "1")
    delete(cluster, "slow")
    eventually(lambda: "slow" not in topics(cluster), "its topic is gone")
    for folder in folders.values():
        eventually(lambda: not {name for name in names(folder, "slow") if "delete" not in name}, "no replica")  # noqa: B023


def running(cluster: LocalCluster) -> set[int]:
    return {broker["id"] for broker in as_json(cluster, "cluster", "describe")["brokers"]}


def plan(cluster: LocalCluster, topic: str, *replicas: int) -> str:
    path = cluster.folder / f"{topic}.json"
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}))
    return str(path)


def topics(cluster: LocalCluster) -> set[str]:
    return {topic["name"] for topic in as_json(cluster, "topics", "list")["topics"]}


def create(cluster: LocalCluster, topic: str, replicas: str) -> None:
    if cluster.state.kafka:
        tool(cluster, "topics", "--create", "--topic", topic, "--replica-assignment", replicas)
    else:
        klamm(cluster, "topics", "create", topic, "--replica-assignment", replicas)


def delete(cluster: LocalCluster, topic: str) -> None:
    started = time.monotonic()
    if cluster.state.kafka:
        tool(cluster, "topics", "--delete", "--topic", topic)
        assert time.monotonic() - started < AT_ONCE_S
    else:
        klamm(cluster, "topics", "delete", topic, "--yes")


def tool(cluster: LocalCluster, name: str, *arguments: str, stdin: str = "") -> str:
    """One of Kafka's own programs, which asks klamm's controllers."""
    at = ",".join(member.kafka_address for member in cluster.members(CONTROLLER))
    command = tool_command(TOOLS, name, ("--bootstrap-server", at, *arguments), cluster.folder)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def send(cluster: LocalCluster, topic: str, records: int) -> None:
    lines = "".join(f"{number:01000}\n" for number in range(records))
    if cluster.state.kafka:
        tool(cluster, "producer", "--topic", topic, stdin=lines)
    else:
        klamm(cluster, "produce", topic, stdin=lines)


def topic_id(cluster: LocalCluster, topic: str) -> str | None:
    found: str | None = as_json(cluster, "topics", "describe", topic)["topics"][0]["topic_id"]
    return found


def names(folder: Path, prefix: str) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.startswith(prefix)}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "t-0").glob("*.log"))


def log_of(cluster: LocalCluster, broker: int) -> str:
    return (cluster.folder / "logs" / f"broker-{broker}.log").read_text()
