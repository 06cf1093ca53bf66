"""Controlled shutdown of brokers of a real cluster under load, by command and by signal."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from cluster.process import identity
from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from tests.processes.commands import LAUNCHER, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Whose leaders move only when a broker leaves: nobody dies here, and nobody is to be taken for dead."""
    settings = {"auto.leader.rebalance.enable": False, "zookeeper.session.timeout.ms": 30_000}
    with serving_cluster(
        tmp_path_factory.mktemp("leaving") / "c", controllers=1, brokers=3, settings=settings
    ) as running:
        yield running


class Load:
    """A producer that is fed a line every few milliseconds, with acks=all."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        command = [*LAUNCHER, "produce", topic, "--acks", "all", "--data", str(cluster.folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._enough = threading.Event()
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        self.count = 0

    def __enter__(self) -> Self:
        self._feeder.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._process.kill()
        self._process.wait()

    def _feed(self) -> None:
        assert self._process.stdin is not None
        while not self._enough.wait(0.002):
            self._process.stdin.write(f"{self.count}\n")
            self._process.stdin.flush()
            self.count += 1

    def end(self) -> None:
        """Everything was acknowledged, after whatever number of repetitions."""
        self._enough.set()
        self._feeder.join()
        printed, complaints = self._process.communicate(timeout=TIMEOUT_S)
        assert self._process.returncode == 0, complaints
        assert int(re.findall(r"\d+", printed)[-1]) == self.count


def wait_for_isr(cluster: LocalCluster, topic: str, size: int) -> None:
    eventually(lambda: all(len(p["isr"]) == size for p in partitions(cluster, topic)), "the replicas are in sync again")


def wait_for_end(cluster: LocalCluster, name: str) -> None:
    """The command is done when the registration is gone; the process has a little to do yet."""
    eventually(lambda: cluster.state_of(name) == identity.GONE, f"the end of {name}")


def log_of(cluster: LocalCluster, broker: int) -> str:
    return (Path(cluster.folder) / "logs" / f"broker-{broker}.log").read_text(errors="replace")


@pytest.mark.rule("R12.1", "R12.2", "R12.3", "R12.6", "CS-8", "CS-10", "CS-17")
def test_two_controlled_shutdowns_under_load_lose_no_acknowledged_record(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "load", "--partitions", "12", "--replication-factor", "3")
    wait_for_isr(cluster, "load", 3)
    before = partitions(cluster, "load")
    with Load(cluster, "load") as load:
        leave_one_after_the_other(cluster, before)
        load.end()
    consumed = klamm(cluster, "consume", "load", "--from-beginning", "--until-end").stdout
    assert {int(line) for line in consumed.splitlines()} == set(range(load.count))


def leave_one_after_the_other(cluster: LocalCluster, before: list[dict[str, Any]]) -> None:
    klamm(cluster, "brokers", "shutdown", "2", "--dry-run")
    assert partitions(cluster, "load") == before
    klamm(cluster, "brokers", "shutdown", "2")
    wait_for_end(cluster, "broker-2")
    assert "Controlled shutdown succeeded" in log_of(cluster, 2)
    for was, now in zip(before, partitions(cluster, "load"), strict=True):
        # One decision each, and none more when the broker was gone.
        assert now["leader_epoch"] == was["leader_epoch"] + 1
        assert (now["leader"] == was["leader"]) == (was["leader"] != 2)
        assert set(now["isr"]) == {1, 3}
    said_before = log_of(cluster, 3).count("Controlled shutdown succeeded")
    cluster.stop("broker-3")
    assert log_of(cluster, 3).count("Controlled shutdown succeeded") == said_before + 1
    assert {(p["leader"], *p["isr"]) for p in partitions(cluster, "load")} == {(1, 1)}
    for broker in (2, 3):
        cluster.start(f"broker-{broker}")
    wait_until_serving(cluster, TIMEOUT_S)
    wait_for_isr(cluster, "load", 3)


@pytest.mark.rule("CS-14", "R12.1")
def test_a_broker_that_no_other_can_replace_is_reported_and_exits_on_sigterm(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "alone", "--replica-assignment", "3")
    planned = klamm(cluster, "brokers", "shutdown", "3", "--dry-run", "-o", "json", code=3)
    assert [(p["topic"], p["partition"]) for p in json.loads(planned.stdout)["leaderless"]] == [("alone", 0)]
    klamm(cluster, "brokers", "shutdown", "3", code=1)
    assert cluster.state_of("broker-3") == identity.RUNNING
    klamm(cluster, "brokers", "shutdown", "3", "--force")
    wait_for_end(cluster, "broker-3")
    assert "Controlled shutdown succeeded" in log_of(cluster, 3)
    assert partitions(cluster, "alone")[0]["leader"] == -1
    cluster.start("broker-3")
    wait_until_serving(cluster, TIMEOUT_S)


@pytest.mark.rule("R15.2")
def test_a_changed_topic_config_applies_to_the_next_record(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "strict", "--replica-assignment", "1")
    klamm(cluster, "produce", "strict", "--count", "1")
    klamm(cluster, "topics", "alter", "strict", "--config", "max.message.bytes=10")
    eventually(lambda: not _is_taken(cluster), "the broker takes the new setting over")
    klamm(cluster, "topics", "alter", "strict", "--delete-config", "max.message.bytes")
    eventually(lambda: _is_taken(cluster), "the broker takes the default over")


def _is_taken(cluster: LocalCluster) -> bool:
    command = [*LAUNCHER, "produce", "strict", "--count", "1", "--data", str(cluster.folder)]
    return subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S).returncode == 0
