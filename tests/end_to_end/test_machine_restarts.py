"""A leader is back before any controller looks: its machine ran on, or was restarted without what was not flushed.

No power fails here: the file that says under which boot the log directory was used last gets another one, and the log
is cut as a power failure may leave it.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from broker_agent.log.checkpoints import BOOT_ID, encode_boot_id
from deploy.local.cluster import LocalCluster
from state_log.writer import boot_id
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, log_directory, partitions, serving_cluster

pytestmark = pytest.mark.real

HOUR_MS = 3_600_000
SETTINGS = {
    "replica.high.watermark.checkpoint.interval.ms": HOUR_MS,
    "log.flush.offset.checkpoint.interval.ms": HOUR_MS,
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": 4000,
}
IN_DOUBT = "the machine was restarted without a clean shutdown"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("boots") / "c"
    with serving_cluster(folder, controllers=1, brokers=2, settings=SETTINGS) as running:
        klamm(running, "topics", "create", "t", "--replica-assignment", "1:2")
        for _ in range(5):
            klamm(running, "produce", "t", "--count", "100", "--acks", "all")
        yield running


def state(cluster: LocalCluster) -> dict[str, Any]:
    return partitions(cluster, "t")[0]


def log_of(cluster: LocalCluster, broker: int) -> str:
    return (cluster.folder / "logs" / f"broker-{broker}.log").read_text()


def crash_unseen(cluster: LocalCluster, broker: int) -> None:
    """The broker is killed while there is no controller."""
    cluster.kill("controller-1001")
    cluster.kill(f"broker-{broker}")


def return_first(cluster: LocalCluster, broker: int) -> None:
    """It registers, once its session has expired, before there is a controller."""
    starts = log_of(cluster, broker).count("Broker agent started")
    cluster.start(f"broker-{broker}")

    def is_back() -> bool:
        cluster.restart_exited()
        return log_of(cluster, broker).count("Broker agent started") > starts

    eventually(is_back, f"broker {broker} is registered")
    cluster.start("controller-1001")


def consumed(cluster: LocalCluster) -> int:
    return len(klamm(cluster, "consume", "t", "--from-beginning", "--until-end").stdout.splitlines())


@pytest.mark.rule("D-119", "P28")
def test_a_leader_whose_machine_lost_its_tail_follows_and_fetches_it(cluster: LocalCluster) -> None:
    directory = log_directory(cluster, 1)
    segment = next((directory / "t-0").glob("*.log"))
    crash_unseen(cluster, 1)
    content = segment.read_bytes()
    segment.write_bytes(content[: len(content) // 2])
    (directory / BOOT_ID).write_bytes(encode_boot_id("the-boot-before"))
    return_first(cluster, 1)
    eventually(lambda: sorted(state(cluster)["isr"]) == [1, 2], "it has caught up")
    assert state(cluster)["leader"] == 2
    assert segment.read_bytes() == content
    assert consumed(cluster) == 500
    assert IN_DOUBT in log_of(cluster, 1)
    assert "Replica is damaged" not in log_of(cluster, 1)
    assert (directory / BOOT_ID).read_bytes() == encode_boot_id(boot_id())
    issues = as_json(cluster, "cluster", "health", codes=(0, 3))["findings"]
    assert {issue["kind"] for issue in issues} <= {"imbalanced_leaders"}


@pytest.mark.rule("D-119", "R9.13a")
def test_a_killed_leader_whose_machine_ran_on_leads_again_in_its_epoch(cluster: LocalCluster) -> None:
    before = state(cluster)
    leader = before["leader"]
    assert (log_directory(cluster, leader) / BOOT_ID).read_bytes() == encode_boot_id(boot_id())
    doubts = log_of(cluster, leader).count(IN_DOUBT)
    crash_unseen(cluster, leader)
    return_first(cluster, leader)
    klamm(cluster, "produce", "t", "--count", "1", "--acks", "all")
    now = state(cluster)
    assert (now["leader"], now["leader_epoch"], sorted(now["isr"])) == (leader, before["leader_epoch"], [1, 2])
    assert log_of(cluster, leader).count(IN_DOUBT) == doubts
    assert consumed(cluster) == 501
