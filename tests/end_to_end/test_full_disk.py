"""A broker whose disk, a tmpfs of 100 MB, is filled by a producer and then freed: what producer, follower, health and
metrics say at each stage.
"""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from tests.processes.commands import as_json, klamm, run_klamm
from tests.processes.local_clusters import eventually, partitions
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]

SETTINGS = {
    "auto.leader.rebalance.enable": False,
    "replica.lag.time.max.ms": 3000,
    "log.segment.bytes": 4_000_000,
    "log.retention.check.interval.ms": 1000,
    "log.initial.task.delay.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    "zookeeper.session.timeout.ms": 3000,
}
LINE = "x" * 9_990


def mount(path: Path, size: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "klamm-full", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One controller and two brokers; the only log directory of broker 1 is a file system of 100 MB."""
    folder = tmp_path_factory.mktemp("cluster") / "c"
    running = LocalCluster.create_or_open(folder, controllers=1, brokers=2, settings=SETTINGS)
    [disk] = running.log_dirs(running.member("broker-1"))
    mount(disk, "100m")
    try:
        running.start_all(TIMEOUT_S)
        wait_until_serving(running, TIMEOUT_S)
        yield running
    finally:
        running.stop_all()
        subprocess.run(["umount", "-l", str(disk)], check=True)


def disk_of(cluster: LocalCluster) -> Path:
    [disk] = cluster.log_dirs(cluster.member("broker-1"))
    return disk


def metric(cluster: LocalCluster, name: str) -> float | None:
    """The value of a metric of broker 1 with the label of its log directory."""
    port = cluster.member("broker-1").metrics_port
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(f"{name}{{") and str(disk_of(cluster)) in line:
                return float(line.rpartition(" ")[2])
    return None


def findings(cluster: LocalCluster) -> dict[str, str]:
    """The details of what health finds, by kind."""
    report = as_json(cluster, "cluster", "health", codes=(0, 3))
    return {issue["kind"]: issue["detail"] for issue in report["findings"]}


def state_of_dir(cluster: LocalCluster) -> dict[str, Any]:
    [described] = as_json(cluster, "brokers", "log-dirs", "1")["brokers"]
    [log_dir] = described["log_dirs"]
    return {key: log_dir[key] for key in ("state", "error", "error_message", "usable_bytes", "total_bytes")}


def isr(cluster: LocalCluster, topic: str) -> list[int]:
    found: list[int] = partitions(cluster, topic)[0]["isr"]
    return found


def show(stage: str, **what: object) -> None:
    print(f"--- {stage}")
    for name, value in what.items():
        print(f"    {name}: {value}")


def produced(answer: subprocess.CompletedProcess[str]) -> int:
    """How many records were acknowledged."""
    return int(answer.stdout.split()[-1])


@pytest.mark.rule("FD-9", "FD-10")
def test_a_disk_that_a_producer_fills_recovers_when_it_is_freed(cluster: LocalCluster) -> None:
    disk = disk_of(cluster)
    klamm(cluster, "topics", "create", "filled", "--replica-assignment", "1")
    klamm(cluster, "topics", "create", "followed", "--replica-assignment", "2:1")
    klamm(cluster, "produce", "followed", "--count", "100")
    eventually(lambda: sorted(isr(cluster, "followed")) == [1, 2], "both are in sync")
    assert state_of_dir(cluster)["state"] == "online"
    assert metric(cluster, "klamm_log_logdirectory_full") == 0
    show("before", log_dirs=state_of_dir(cluster), health=findings(cluster))

    # 1. The producer fills it.
    lines = "".join(f"{number:09d}{LINE}\n" for number in range(12_000))
    where = ("--data", str(cluster.folder))
    refused = run_klamm("produce", "filled", "--acks", "all", "--timeout", "20", *where, stdin=lines)
    assert refused.returncode == 1
    acknowledged = produced(refused)
    assert 8_000 < acknowledged < 10_500
    assert str(disk) in refused.stderr
    assert "is full" in refused.stderr
    described = state_of_dir(cluster)
    assert (described["state"], described["error"]) == ("full", "NONE")
    assert 1_000_000 < described["usable_bytes"] < 6_000_000, "what is kept for other things is there"
    assert str(disk) in findings(cluster)["full_log_directory"]
    eventually(lambda: metric(cluster, "klamm_log_logdirectory_full") == 1, "the metric says so")
    log = cluster.log_tail("broker-1", 2000)
    assert "Log directory is full" in log
    show(
        "filled by the producer",
        producer=refused.stderr.strip().splitlines()[-1],
        acknowledged=acknowledged,
        log_dirs=described,
        health=findings(cluster)["full_log_directory"],
        reserved_bytes=metric(cluster, "klamm_log_logdirectory_reservedbytes"),
        broker_log=next(line for line in log.splitlines() if "Log directory is full" in line),
    )

    # 2. The follower there leaves the ISR; the leader elsewhere goes on.
    klamm(cluster, "produce", "followed", "--count", "100", "--acks", "1")
    eventually(lambda: isr(cluster, "followed") == [2], "the follower on the full disk leaves the ISR")
    klamm(cluster, "produce", "followed", "--count", "100", "--acks", "all")
    show("the follower", isr=isr(cluster, "followed"), health=sorted(findings(cluster)))

    # 3. Killed on the full disk, it starts again, and says why it takes nothing; what it has is read.
    filler = disk / "filler"
    for bytes_left in (None, 0):
        if bytes_left == 0:
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(4096)):
                    pass
        cluster.kill("broker-1")
        eventually(lambda: 1 not in brokers(cluster), "its session has ended")
        cluster.start("broker-1")
        eventually(lambda: 1 in brokers(cluster), "it starts on the full disk")
        eventually(lambda: "full_log_directory" in findings(cluster), "it says why it takes nothing")
        if bytes_left is None:
            eventually(lambda: partitions(cluster, "filled")[0]["leader"] == 1, "it leads what only it has")
            assert len(read(cluster, "filled", 0)) == acknowledged
        show(
            f"started again, {'0' if bytes_left == 0 else 'the reserve of'} bytes left",
            log_dirs=state_of_dir(cluster),
            process=cluster.state_of("broker-1"),
            health=sorted(findings(cluster)),
        )
    # Without a byte it cannot even write the leader epoch in which it would lead. It is not restarted for it.
    filler.unlink()
    eventually(lambda: partitions(cluster, "filled")[0]["leader"] == 1, "it leads again when it can write that")
    assert state_of_dir(cluster)["state"] == "full"
    assert len(read(cluster, "filled", 0)) == acknowledged

    # 4. Records are deleted, and so it has room.
    kept_from = acknowledged // 2
    klamm(cluster, "topics", "delete-records", "filled-0", "--before-offset", str(kept_from))
    eventually(lambda: state_of_dir(cluster)["state"] == "online", "it takes records again")
    eventually(lambda: metric(cluster, "klamm_log_logdirectory_full") == 0, "the metric says so")
    eventually(lambda: "full_log_directory" not in findings(cluster), "health says so")
    eventually(lambda: sorted(isr(cluster, "followed")) == [1, 2], "the follower is back")
    more = klamm(cluster, "produce", "filled", "--acks", "all", stdin="more\n" * 10)
    assert produced(more) == 10
    values = read(cluster, "filled", kept_from)
    assert values == [f"{number:09d}{LINE}" for number in range(kept_from, acknowledged)] + ["more"] * 10
    assert len(read(cluster, "followed", 0)) == 300
    show(
        "freed",
        log_dirs=state_of_dir(cluster),
        health=findings(cluster),
        isr=isr(cluster, "followed"),
        read_back=len(values),
        broker_log=next(line for line in cluster.log_tail("broker-1", 2000).splitlines() if "has room again" in line),
    )


def brokers(cluster: LocalCluster) -> list[int]:
    return [broker["id"] for broker in as_json(cluster, "brokers", "list")["brokers"] if broker["state"] != "dead"]


def read(cluster: LocalCluster, topic: str, offset: int) -> list[str]:
    """All values from an offset on."""
    answer = klamm(cluster, "consume", topic, "--offset", str(offset), "--partition", "0", "--until-end")
    return answer.stdout.splitlines()
