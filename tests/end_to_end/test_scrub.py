"""A byte of a stored batch changes on the disk of a real broker: the scrub finds it, and another replica cures it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, log_directory, partitions, serving_cluster

pytestmark = pytest.mark.real

SETTINGS = {
    "log.segment.bytes": 20_000,
    "log.initial.task.delay.ms": 1000,
    "klamm.log.scrub.interval.ms": 1000,
    "klamm.log.scrub.bytes.per.second": 100_000_000,
}
PATH = "flipped-0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("scrub") / "c"
    with serving_cluster(folder, controllers=1, brokers=2, settings=SETTINGS) as running:
        klamm(running, "topics", "create", "flipped", "--partitions", "1", "--replication-factor", "2")
        for _ in range(5):
            klamm(running, "produce", "flipped", "--count", "1000", "--acks", "all")
        yield running


def files(cluster: LocalCluster, broker: int) -> list[Path]:
    """The segments of the replica, sealed ones first."""
    return sorted((log_directory(cluster, broker) / PATH).glob("*.log"))


def content(cluster: LocalCluster, broker: int) -> bytes:
    return b"".join(file.read_bytes() for file in files(cluster, broker))


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        (old,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([old ^ 0xFF]))


@pytest.mark.rule("R9.30", "R9.31", "D-40")
@pytest.mark.parametrize("role", ["follower", "leader"])
def test_a_flipped_byte_in_a_sealed_segment_is_cured(cluster: LocalCluster, role: str) -> None:
    (before,) = partitions(cluster, "flipped")
    leader = before["leader"]
    (follower,) = set(before["replicas"]) - {leader}
    victim, other = (leader, follower) if role == "leader" else (follower, leader)
    good = content(cluster, other)
    sealed = files(cluster, victim)
    assert len(sealed) > 1, "no segment is sealed"
    assert content(cluster, victim) == good
    flip(sealed[0])

    def is_cured() -> bool:
        (now,) = partitions(cluster, "flipped")
        return now["leader_epoch"] > before["leader_epoch"] and sorted(now["isr"]) == [1, 2]

    eventually(is_cured, "both are in sync in a later leader epoch")
    assert content(cluster, victim) == good
    assert partitions(cluster, "flipped")[0]["leader"] == other
    story = as_json(cluster, "story", PATH)["records"]
    assert [record["broker"] for record in story if record.get("reason") == "scrub" and record["kind"] == "truncation"][
        -2:
    ] == [victim, victim]
    read = klamm(cluster, "consume", "flipped", "--from-beginning", "--until-end").stdout
    assert len(re.findall(r"\n", read)) == 5000
