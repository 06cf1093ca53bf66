"""Replicas move between the log directories of real brokers, under load and through kill -9, by commands."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.process.local_cluster import BROKER
from deploy.local.cluster import LocalCluster
from tests.processes.commands import LAUNCHER, as_json, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster

pytestmark = pytest.mark.real

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One controller and two brokers, with two log directories each."""
    settings = {"auto.leader.rebalance.enable": False, "log.segment.bytes": 200_000}
    folder = tmp_path_factory.mktemp("cluster") / "c"
    with serving_cluster(folder, controllers=1, brokers=2, settings=settings, log_dirs=2) as running:
        yield running


def log_dirs(cluster: LocalCluster, broker: int) -> list[dict[str, Any]]:
    [described] = as_json(cluster, "brokers", "log-dirs", str(broker))["brokers"]
    found: list[dict[str, Any]] = described["log_dirs"]
    return found


def logs_of(cluster: LocalCluster, broker: int) -> set[tuple[str, int]]:
    return {(r["topic"], r["partition"]) for described in log_dirs(cluster, broker) for r in described["replicas"]}


def create(cluster: LocalCluster, topic: str, assignment: str) -> None:
    """Create a topic, and wait until the brokers have its logs: the answer says only that its partitions are led."""
    klamm(cluster, "topics", "create", topic, "--replica-assignment", assignment)
    replicas = [{int(broker) for broker in of.split(":")} for of in assignment.split(",")]
    for broker in set[int]().union(*replicas):
        wanted = {(topic, partition) for partition, brokers in enumerate(replicas) if broker in brokers}
        eventually(lambda: wanted <= logs_of(cluster, broker), f"broker {broker} has its logs of {topic}")  # noqa: B023


def place_of(cluster: LocalCluster, broker: int, topic: str, partition: int = 0) -> tuple[str, str]:
    """The log directory of a replica, and the other one."""
    here, there = [], []
    for described in log_dirs(cluster, broker):
        replicas = [(r["topic"], r["partition"]) for r in described["replicas"] if not r["is_future"]]
        (here if (topic, partition) in replicas else there).append(described["log_dir"])
    assert len(here) == 1
    return here[0], there[0]


@pytest.mark.rule("R11.7", "R11.8", "R11.12", "R2.13")
def test_a_leader_moves_under_load_and_goes_on_after_kill_9(cluster: LocalCluster) -> None:
    # Long before the move: a broker learns of its configs from ZooKeeper.
    klamm(cluster, "brokers", "alter", "1", "--config", f"{RATE}=1000")
    create(cluster, "moved", "1:2")
    lines = [f"{number:08d}" for number in range(60_000)]
    klamm(cluster, "produce", "moved", "--acks", "all", stdin="\n".join(lines[:30_000]) + "\n")
    source, target = place_of(cluster, 1, "moved")
    command = [*LAUNCHER, "produce", "moved", "--acks", "all", "--data", str(cluster.folder), "--timeout", "120"]
    producer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert producer.stdin is not None
    producer.stdin.write("\n".join(lines[30_000:40_000]) + "\n")
    producer.stdin.flush()
    klamm(cluster, "brokers", "move-dir", "1", "moved-0", "--to", target, "--no-wait")
    futures = [r for d in log_dirs(cluster, 1) for r in d["replicas"] if r["is_future"] and d["log_dir"] == target]
    assert [future["topic"] for future in futures] == ["moved"]
    assert futures[0]["offset_lag"] > 0
    cluster.kill(f"{BROKER}-1")
    eventually(lambda: partitions(cluster, "moved")[0]["leader"] == 2, "broker 2 leads")
    cluster.start(f"{BROKER}-1")
    eventually(lambda: sorted(partitions(cluster, "moved")[0]["isr"]) == [1, 2], "broker 1 is in sync")
    assert place_of(cluster, 1, "moved") == (source, target)
    klamm(cluster, "brokers", "alter", "1", "--delete-config", RATE)
    # The same once more: the move is running, and is waited for, unless it has just ended.
    done = klamm(cluster, "brokers", "move-dir", "1", "moved-0", "--to", target, "--timeout", "120")
    assert done.stderr.splitlines()[-1] in ("1 replica moved", f"moved-0: already in {target}")
    assert place_of(cluster, 1, "moved") == (target, source)
    story = klamm(cluster, "story", "moved-0").stdout
    for what in ("begins to move", "has moved"):
        assert story.count(f"broker 1 {what} its replica to another log directory") == 1
    assert f"from {source} to {target}" in story
    answer, _ = producer.communicate("\n".join(lines[40_000:]) + "\n", timeout=300)
    assert answer.splitlines()[-1] == "30000"
    assert not list(Path(target).glob("moved-0.*-future"))
    assert Path(target, "moved-0").is_dir()
    klamm(cluster, "elect", "preferred", "--all-topic-partitions")
    eventually(lambda: partitions(cluster, "moved")[0]["leader"] == 1, "broker 1 leads")
    read = klamm(cluster, "consume", "moved", "--from-beginning", "--until-end").stdout.splitlines()
    assert sorted(set(read)) == lines


@pytest.mark.rule("R11.8")
def test_what_a_broker_refuses_is_named(cluster: LocalCluster) -> None:
    create(cluster, "refused", "1:2")
    _, target = place_of(cluster, 1, "refused")
    answer = klamm(cluster, "brokers", "move-dir", "1", "refused-0", "refused-5", "--to", "/nowhere", code=1)
    assert "LOG_DIR_NOT_FOUND" in answer.stdout
    unknown = ("refused-5", "nope-0")
    answer = klamm(cluster, "brokers", "move-dir", "1", *unknown, "--to", target, "--throttle", "1", code=1)
    assert "topic 'refused' has no partition 5: it has 1" in answer.stdout
    assert "topic 'nope' does not exist" in answer.stdout
    # Nothing is to be copied, so nothing is throttled.
    configs = klamm(cluster, "brokers", "describe", "1", "--configs").stdout.splitlines()
    [line] = [line for line in configs if line.startswith(RATE)]
    assert line.split()[-1] == "default"
    assert "no broker 7" in klamm(cluster, "brokers", "move-dir", "7", "refused-0", "--to", target, code=1).stderr
    source = place_of(cluster, 1, "refused")[0]
    planned = klamm(cluster, "brokers", "move-dir", "1", "refused-0", "--to", target, "--dry-run")
    assert [*map(str.split, planned.stdout.splitlines())][1] == ["1", "refused", "0", "0", source, target]
    assert place_of(cluster, 1, "refused") == (source, target)
    assert klamm(cluster, "brokers", "move-dir", "1", "refused-0", "--to", source).stderr == (
        f"refused-0: already in {source}\n"
    )


def test_topics_without_replicas_are_named(cluster: LocalCluster) -> None:
    create(cluster, "elsewhere", "1")
    answer = klamm(cluster, "brokers", "log-dirs", "--topic", "nope", "--topic", "elsewhere", "--topic", "no", code=1)
    assert "topics 'nope', 'no' do not exist" in answer.stderr
    answer = klamm(cluster, "brokers", "log-dirs", "2", "--topic", "elsewhere")
    assert answer.stderr == "warning: no broker shown has a replica of elsewhere\n"
    assert klamm(cluster, "brokers", "log-dirs", "1", "--topic", "elsewhere").stderr == ""


def test_a_throttle_that_a_move_leaves_is_an_issue_with_the_command_that_removes_it(cluster: LocalCluster) -> None:
    create(cluster, "left", "1")
    _, target = place_of(cluster, 1, "left")
    klamm(cluster, "brokers", "move-dir", "1", "left-0", "--to", target, "--no-wait", "--throttle", "1000000")
    eventually(lambda: place_of(cluster, 1, "left")[0] == target, "the replica has moved")
    found = as_json(cluster, "cluster", "health", codes=(0, 3))["findings"]
    [left] = [finding for finding in found if finding["kind"] == "forgotten_throttle"]
    assert f"'klamm brokers alter 1 --delete-config {RATE}'" in left["detail"]
    klamm(cluster, "brokers", "alter", "1", "--delete-config", RATE)


def test_all_errors_of_a_reassignment_are_named_and_leave_no_throttle(cluster: LocalCluster, tmp_path: Path) -> None:
    create(cluster, "wrong", "1")
    moves: list[dict[str, Any]] = [
        {"topic": "wrong", "partition": 0, "replicas": [1], "log_dirs": ["/nowhere"]},
        {"topic": "wrong", "partition": 7, "replicas": [1], "log_dirs": ["/nowhere"]},
        {"topic": "nope", "partition": 0, "replicas": [9], "log_dirs": ["/nowhere"]},
    ]
    between_brokers = {"topic": "gone", "partition": 0, "replicas": [1]}
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": [*moves, between_brokers]}))
    said = klamm(cluster, "reassign", "execute", str(file), code=1).stderr
    for error in (
        "no broker 9 is registered",
        "topic 'wrong' has no partition 7",
        "topic 'nope' does not exist",
        "/nowhere is no log directory of broker 1",
        "gone-0: The partition does not exist",
    ):
        assert error in said
    moves = [{**move, "log_dirs": ["any"], "replicas": [9]} for move in moves]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    answer = klamm(cluster, "reassign", "execute", str(file), "--throttle", "1000", code=1)
    assert "no throttle is set" in answer.stderr
    assert "3 refused" in answer.stderr


def test_offsets_are_found_by_time(cluster: LocalCluster) -> None:
    create(cluster, "timed", "1,1")
    records = [{"value": "x", "timestamp": at} for at in (1000, 9000, 9000, 500)]
    klamm(
        cluster,
        *("produce", "timed", "--partition", "0", "--input", "json"),
        stdin="".join(f"{json.dumps(record)}\n" for record in records),
    )

    def offsets(time: str) -> list[tuple[int | None, int | None]]:
        answer = as_json(cluster, "topics", "offsets", "timed", "--time", time)
        return [(row["offset"], row["timestamp"]) for row in answer["partitions"]]

    assert offsets("max-timestamp") == offsets("-3") == [(1, 9000), (None, None)]
    assert offsets("latest") == [(4, None), (0, None)]
    assert offsets("earliest") == offsets("-2") == [(0, None), (0, None)]
    assert offsets("9000") == offsets("1970-01-01T00:00:09") == [(1, 9000), (None, None)]
    assert offsets("9001") == [(None, None), (None, None)]
    refused = klamm(cluster, "topics", "offsets", "timed", "--time", "newest", code=2)
    assert "max-timestamp" in refused.stderr
    assert "pass one of them" in klamm(cluster, "topics", "offsets", "t", "--time", "1", "--since", "1h", code=2).stderr


def test_kafkas_reassignment_file_names_log_directories(cluster: LocalCluster, tmp_path: Path) -> None:
    create(cluster, "chosen", "1,1")
    _, other = place_of(cluster, 1, "chosen", 0)
    of_two = [described["log_dir"] for described in log_dirs(cluster, 2)]
    moves = [
        {"topic": "chosen", "partition": 0, "replicas": [1, 2], "log_dirs": [other, of_two[0]]},
        {"topic": "chosen", "partition": 1, "replicas": [1, 2], "log_dirs": ["any", of_two[1]]},
    ]
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    klamm(cluster, "reassign", "verify", str(file), code=3)
    klamm(cluster, "reassign", "execute", str(file), "--wait", "--timeout", "120")
    klamm(cluster, "reassign", "verify", str(file))
    assert place_of(cluster, 1, "chosen", 0)[0] == other
    assert [place_of(cluster, 2, "chosen", number)[0] for number in (0, 1)] == of_two
    moves[0]["log_dirs"] = ["/nowhere", "any"]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    answer = klamm(cluster, "reassign", "execute", str(file), code=1)
    assert "/nowhere is no log directory of broker 1" in answer.stderr


def test_log_directories_are_evened_out(cluster: LocalCluster) -> None:
    create(cluster, "spread", "2,2,2,2")
    target = log_dirs(cluster, 2)[0]["log_dir"]
    names = [f"spread-{number}" for number in range(4)]
    klamm(cluster, "brokers", "move-dir", "2", *names, "--to", target)
    klamm(cluster, "produce", "spread", stdin="".join(f"{number:0500d}\n" for number in range(4000)))

    def sizes() -> list[int]:
        return [sum(r["size_bytes"] for r in described["replicas"]) for described in log_dirs(cluster, 2)]

    before = sizes()
    planned = json.loads(klamm(cluster, "brokers", "balance-dirs", "2", "--dry-run", "-o", "json").stdout)
    assert planned["moves"]
    assert sizes() == before
    klamm(cluster, "brokers", "balance-dirs", "2", "--yes", "--throttle", "50000000", "--timeout", "120")
    after = sizes()
    assert max(after) - min(after) < max(before) - min(before)
    configs = klamm(cluster, "brokers", "describe", "2", "--configs").stdout.splitlines()
    [line] = [line for line in configs if line.startswith(RATE)]
    assert line.split()[-1] == "default"
