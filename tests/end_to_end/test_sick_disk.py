"""One log directory of a broker turns read-only under load, and is brought back by a command, without a restart."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, partitions
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One controller and two brokers with two log directories; one of broker 1 is a file system of its own."""
    folder = tmp_path_factory.mktemp("cluster") / "c"
    settings = {"auto.leader.rebalance.enable": False, "log.flush.offset.checkpoint.interval.ms": 1000}
    running = LocalCluster.create_or_open(folder, controllers=1, brokers=2, settings=settings, log_dirs=2)
    disk = sick_disk(running)
    disk.mkdir(parents=True)
    try:
        mount("-t", "tmpfs", "-o", "size=100m", "klamm-sick", str(disk))
    except subprocess.CalledProcessError:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        running.start_all(TIMEOUT_S)
        wait_until_serving(running, TIMEOUT_S)
        yield running
    finally:
        running.stop_all()
        subprocess.run(["umount", "-l", str(disk)], check=True)


def sick_disk(cluster: LocalCluster) -> Path:
    return cluster.log_dirs(cluster.member("broker-1"))[1]


def states(cluster: LocalCluster) -> dict[str, str]:
    """The states of the log directories of broker 1."""
    [described] = as_json(cluster, "brokers", "log-dirs", "1")["brokers"]
    return {log_dir["log_dir"]: log_dir["state"] for log_dir in described["log_dirs"]}


def health(cluster: LocalCluster) -> dict[str, str]:
    report = as_json(cluster, "cluster", "health", codes=(0, 3))
    return {found["kind"]: found["detail"] for found in report["findings"]}


def isrs(cluster: LocalCluster) -> list[list[int]]:
    return [sorted(partition["isr"]) for partition in partitions(cluster, "sick")]


def produce(cluster: LocalCluster, lines: list[str]) -> None:
    """With keys, by which they go to all partitions."""
    klamm(cluster, "produce", "sick", "--acks", "all", stdin="".join(f"{line}\t{line}\n" for line in lines))


def read(cluster: LocalCluster) -> list[str]:
    return sorted(klamm(cluster, "consume", "sick", "--from-beginning", "--until-end").stdout.splitlines())


@pytest.mark.rule("FD-11", "R11.3", "D-121")
def test_a_directory_that_was_read_only_is_brought_back_by_a_command(cluster: LocalCluster) -> None:
    disk = sick_disk(cluster)
    pid = cluster.member("broker-1").process
    klamm(cluster, "topics", "create", "sick", "--replica-assignment", "1:2,1:2,1:2,1:2")
    lines = [f"{number:05d}" for number in range(4000)]
    produce(cluster, lines[:2000])
    in_service = klamm(cluster, "brokers", "online-dir", "1", str(disk), code=1)
    assert "is in service" in in_service.stderr

    # What has files open cannot be mounted again read-only: this is mounted over it.
    mount("-t", "tmpfs", "-o", "ro,size=1m", "klamm-read-only", str(disk))
    produce(cluster, lines[2000:3000])
    eventually(lambda: states(cluster)[str(disk)] == "failed", "the read-only directory fails")
    assert [state for path, state in states(cluster).items() if path != str(disk)] == ["online"]
    eventually(lambda: sorted(isrs(cluster)) == [[1, 2], [1, 2], [2], [2]], "its replicas are out of the ISR")
    detail = health(cluster)["failed_log_directory"]
    assert "Read-only file system" in detail
    assert f"klamm brokers online-dir 1 {disk}" in detail
    for options in (("--dry-run",), ()):
        refused = klamm(cluster, "brokers", "online-dir", "1", str(disk), *options, code=1)
        assert "stays out of service" in refused.stderr
        assert "Read-only file system" in refused.stderr

    subprocess.run(["umount", str(disk)], check=True)
    klamm(cluster, "brokers", "online-dir", "1", str(disk), "--dry-run")
    assert states(cluster)[str(disk)] == "failed"
    back = klamm(cluster, "brokers", "online-dir", "1", str(disk))
    assert f"log directory {disk} of broker 1 is in service again" in back.stderr
    eventually(lambda: isrs(cluster) == [[1, 2]] * 4, "its replicas are in sync again")
    produce(cluster, lines[3000:])
    assert set(states(cluster).values()) == {"online"}
    eventually(lambda: not health(cluster).keys() - {"imbalanced_leaders"}, "nothing is wrong")
    assert read(cluster) == lines
    assert cluster.member("broker-1").process == pid, "it was not restarted"
    klamm(cluster, "elect", "preferred", "--all-topic-partitions")
    eventually(lambda: {p["leader"] for p in partitions(cluster, "sick")} == {1}, "it leads what it has caught up with")
    assert read(cluster) == lines
