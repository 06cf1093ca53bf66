"""Two hundred partitions move while the controller and a target are killed: no acknowledged record is lost."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]

PARTITIONS = 200
BROKERS = 5
LINES = 200_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path / "c", controllers=3, brokers=BROKERS) as running:
        yield running


def placed(partition: int, shift: int) -> list[int]:
    return [(partition + shift + number) % BROKERS + 1 for number in range(3)]


def active_controller(cluster: LocalCluster) -> str:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        active = [c["id"] for c in as_json(cluster, "status", codes=(0, 3))["controllers"] if c["active"]]
        if active:
            return f"controller-{active[0]}"
    raise AssertionError("no controller became active")


def test_a_large_reassignment_survives_its_controller_and_a_target(cluster: LocalCluster, tmp_path: Path) -> None:
    before = ",".join(":".join(map(str, placed(p, 0))) for p in range(PARTITIONS))
    klamm(cluster, "topics", "create", "big", "--replica-assignment", before)
    moves = [{"topic": "big", "partition": p, "replicas": placed(p, 2)} for p in range(PARTITIONS)]
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(LINES)))
    command = [sys.executable, "-P", "-m", "klamm", "produce", "big", "--acks", "all", "--file", str(lines)]
    with subprocess.Popen([*command, "--data", str(cluster.folder)], stdout=subprocess.PIPE, text=True) as producer:
        klamm(cluster, "reassign", "execute", str(file))
        cluster.kill(active_controller(cluster))
        cluster.kill("broker-3")
        smallest = watch_until_moved(cluster, restart="broker-3")
        assert producer.stdout is not None
        acknowledged = int(re.findall(r"\d+", producer.stdout.read())[-1])
    assert acknowledged == LINES
    assert smallest >= 3, "the replication factor fell below the original"
    klamm(cluster, "reassign", "verify", str(file))
    read = klamm(cluster, "consume", "big", "--from-beginning", "--until-end").stdout.split()
    assert {int(line) for line in read} == set(range(LINES))


def watch_until_moved(cluster: LocalCluster, *, restart: str) -> int:
    """Wait until the topic node shows the targets alone; the shortest replica list seen on the way."""
    smallest, restarted = BROKERS, False
    deadline = time.monotonic() + TIMEOUT_S
    with plain_client(cluster.state.zookeeper) as client:
        while time.monotonic() < deadline:
            znode = json.loads(client.get("/brokers/topics/big")[0])
            smallest = min(smallest, *(len(replicas) for replicas in znode["partitions"].values()))
            if not restarted and restart.removeprefix("broker-") not in client.get_children("/brokers/ids"):
                cluster.start(restart)
                restarted = True
            moved = all(znode["partitions"][str(p)] == placed(p, 2) for p in range(PARTITIONS))
            if moved and not znode["adding_replicas"] and not znode["removing_replicas"]:
                return smallest
            cluster.restart_exited()
    raise AssertionError(f"not moved in time: {as_json(cluster, 'status')}")
