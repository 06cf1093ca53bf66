"""Moving, deleting, electing and shutting down through the command line, on real processes."""

import json
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.process import identity
from cluster.process.local_cluster import BROKER
from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from tests.processes.commands import LAUNCHER, as_json, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

LINES = "".join(f"{number}\n" for number in range(2_000))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three controllers, three brokers; tests start again what they kill. Leaders move only when told to."""
    settings = {"auto.leader.rebalance.enable": False}
    with serving_cluster(
        tmp_path_factory.mktemp("cluster") / "c", controllers=3, brokers=3, settings=settings
    ) as running:
        yield running


def wait_until_dead(cluster: LocalCluster, broker: int) -> None:
    """Until the controller knows that the broker is dead."""
    eventually(
        lambda: all(b["id"] != broker for b in as_json(cluster, "cluster", "describe")["brokers"]),
        f"broker {broker} is not registered any more",
    )


def start_and_wait(cluster: LocalCluster, broker: int) -> None:
    """Until every replica is in sync again."""
    cluster.start(f"{BROKER}-{broker}")
    wait_until_serving(cluster, TIMEOUT_S)
    eventually(
        lambda: all(
            len(p["isr"]) == len(p["replicas"])
            for t in as_json(cluster, "topics", "describe")["topics"]
            for p in t["partitions"]
        ),
        f"the replicas of broker {broker} are in sync again",
    )


def test_a_topic_is_moved_by_the_files_of_the_original_tools(cluster: LocalCluster, tmp_path: Path) -> None:
    klamm(cluster, "topics", "create", "moved", "--replica-assignment", "1:2,2:1,1:2,2:1")
    klamm(cluster, "produce", "moved", stdin=LINES)
    wanted, back = tmp_path / "moves.json", tmp_path / "back.json"
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "moved"}], "version": 1}')
    proposal = klamm(cluster, "reassign", "generate", "--topics-to-move-json-file", str(topics), "--broker-list", "3,1")
    wanted.write_text(proposal.stdout)

    before = partitions(cluster, "moved")
    plan = json.loads(klamm(cluster, "reassign", "execute", str(wanted), "--dry-run", "-o", "json").stdout)
    assert partitions(cluster, "moved") == before
    moves = {p["partition"]: p["replicas"] for p in json.loads(wanted.read_text())["partitions"]}
    assert {c["partition"] for c in plan["plan"]["changes"]} == moves.keys()
    assert plan["plan"]["requests"]

    done = klamm(cluster, "reassign", "execute", str(wanted), "--wait", "--rollback", str(back), "-o", "json")
    assert json.loads(done.stdout)["accepted"] == len(moves)
    klamm(cluster, "reassign", "verify", str(wanted))
    after = {p["partition"]: p["replicas"] for p in partitions(cluster, "moved")}
    assert {p: after[p] for p in moves} == moves
    verified = json.loads(klamm(cluster, "reassign", "verify", str(back), "-o", "json", code=3).stdout)
    assert {p["state"] for p in verified["partitions"]} == {"different"}
    read = klamm(cluster, "consume", "moved", "--from-beginning", "--until-end").stdout
    assert sorted(read.splitlines()) == sorted(LINES.splitlines())


def test_a_topic_gets_partitions_and_settings_after_its_creation(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "grown", "--replica-assignment", "1:2")
    alter = ["topics", "alter", "grown", "--partitions", "3", "--replica-assignment", "1:2,2:3,3:1"]
    klamm(cluster, *alter, "--dry-run")
    assert len(partitions(cluster, "grown")) == 1
    klamm(cluster, *alter, "--config", "retention.ms=60000", "--config", "min.insync.replicas=2")
    assert [p["replicas"] for p in partitions(cluster, "grown")] == [[1, 2], [2, 3], [3, 1]]
    klamm(cluster, "topics", "alter", "grown", "--delete-config", "retention.ms")
    described = as_json(cluster, "topics", "describe", "grown")["topics"][0]
    assert (described["configs"], described["min_insync_replicas"]) == ({"min.insync.replicas": "2"}, 2)
    assert "INVALID_PARTITIONS" in klamm(cluster, "topics", "alter", "grown", "--partitions", "3", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "changed", "informed", "settings"),
    [
        (["topics", "create", "new", "--replica-assignment", "1:2,2:3"], [0, 1], {1, 2, 3}, []),
        (["topics", "alter", "planned", "--partitions", "3", "--replica-assignment", "3:1"], [2], {1, 2, 3}, []),
        (["topics", "alter", "planned", "--config", "retention.ms=5"], [], set(), ["retention.ms"]),
        (["topics", "delete", "planned"], [0, 1], {1, 2, 3}, []),
        (["brokers", "alter", "default", "--config", "unclean.leader.election.enable=true"], [], set(), ["unclean"]),
    ],
)
def test_every_change_has_a_dry_run(
    cluster: LocalCluster, arguments: list[str], changed: list[int], informed: set[int], settings: list[str]
) -> None:
    if not any(t["name"] == "planned" for t in as_json(cluster, "topics", "list")["topics"]):
        klamm(cluster, "topics", "create", "planned", "--replica-assignment", "1:2,2:3")
    before = as_json(cluster, "topics", "describe")
    document = as_json(cluster, *arguments, "--dry-run")
    assert [c["partition"] for c in document["plan"]["changes"]] == changed
    assert {r["broker"] for r in document["plan"]["requests"]} == informed
    assert [s["config"][: len(key)] for s, key in zip(document["plan"]["settings"], settings, strict=True)] == settings
    assert klamm(cluster, *arguments, "--dry-run").stdout
    assert as_json(cluster, "topics", "describe") == before


def test_scripts_may_create_and_delete_a_topic_again_and_again(cluster: LocalCluster) -> None:
    create = ("topics", "create", "again", "--replica-assignment", "1:2")
    klamm(cluster, *create, "--if-not-exists")
    refused = klamm(cluster, *create, code=1)
    assert "TOPIC_ALREADY_EXISTS" in refused.stderr
    answer = klamm(cluster, *create, "--if-not-exists")
    assert (answer.stdout, answer.stderr) == ("", "topic again exists already; it stays as it is\n")
    assert as_json(cluster, *create, "--if-not-exists")["topics"] == []

    delete = ("topics", "delete", "again", "absent", "--yes")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in klamm(cluster, *delete, "--dry-run", code=1).stderr
    done = as_json(cluster, *delete, "--if-exists")["topics"]
    assert done == [{"name": "again", "state": "deleted"}, {"name": "absent", "state": "absent"}]
    assert "topic again does not exist" in klamm(cluster, *delete, "--if-exists").stderr


def test_offsets_of_partitions_are_shown(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "counted", "--replica-assignment", "1:2,2:1")
    klamm(cluster, "produce", "counted", "--partition", "1", stdin=LINES)
    klamm(cluster, "topics", "delete-records", "counted-1", "--before-offset", "500")
    assert as_json(cluster, "topics", "offsets", "counted", "--since", "1h")["partitions"] == [
        {"topic": "counted", "partition": 0, "start_offset": 0, "end_offset": 0, "offset_since": None},
        {"topic": "counted", "partition": 1, "start_offset": 500, "end_offset": 2_000, "offset_since": 500},
    ]
    header, *rows = klamm(cluster, "topics", "offsets", "counted").stdout.splitlines()
    assert header.split() == ["TOPIC", "PARTITION", "START", "END"]
    assert [row.split() for row in rows] == [["counted", "0", "0", "0"], ["counted", "1", "500", "2000"]]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in klamm(cluster, "topics", "offsets", "nowhere", code=1).stderr


def test_records_are_deleted_up_to_an_offset(cluster: LocalCluster, tmp_path: Path) -> None:
    def read(*options: str, code: int = 0) -> list[str]:
        return klamm(cluster, "consume", "trimmed", "--until-end", *options, code=code).stdout.split()

    klamm(cluster, "topics", "create", "trimmed", "--replica-assignment", "1:2:3")
    klamm(cluster, "produce", "trimmed", stdin=LINES)
    up_to_500 = ("topics", "delete-records", "trimmed-0", "--before-offset", "500")
    (shown,) = as_json(cluster, *up_to_500, "--dry-run")["partitions"]
    assert (shown["offset"], shown["low_watermark"], shown["error"]) == (500, 0, "NONE")
    assert len(read("--from-beginning")) == 2_000
    (done,) = as_json(cluster, *up_to_500)["partitions"]
    assert (done["offset"], done["low_watermark"], done["error"]) == (500, 500, "NONE")
    assert read("--from-beginning") == LINES.split()[500:]
    assert read("--offset", "499", code=1) == []

    wanted = tmp_path / "offsets.json"
    items = (("trimmed", 0, -1), ("trimmed", 7, 1), ("nowhere", 0, 1))
    named = [dict(zip(("topic", "partition", "offset"), item, strict=True)) for item in items]
    wanted.write_text(json.dumps({"partitions": named, "version": 1}))
    answer = klamm(cluster, "topics", "delete-records", "--offset-json-file", str(wanted), "-o", "json", code=1)
    outcomes = [(p["low_watermark"], p["error"]) for p in json.loads(answer.stdout)["partitions"]]
    unknown = (-1, "UNKNOWN_TOPIC_OR_PARTITION")
    assert outcomes == [(2_000, "NONE"), unknown, unknown]
    klamm(cluster, "produce", "trimmed", stdin="new\n")
    assert read("--from-beginning") == ["new"]

    # Not on broker 2 alone, which another test shuts down.
    klamm(cluster, "topics", "create", "compacted", "--replica-assignment", "1", "--config", "cleanup.policy=compact")
    refused = klamm(cluster, "topics", "delete-records", "compacted-0", "--before-offset", "0", code=1)
    assert "POLICY_VIOLATION" in refused.stderr + refused.stdout


def test_all_errors_of_a_request_are_reported_at_once(cluster: LocalCluster) -> None:
    wrong = ["--replication-factor", "9", "--config", "no.such=1", "--config", "retention.ms=long"]
    refused = klamm(cluster, "topics", "create", "a b", *wrong, code=1)
    assert refused.stderr.splitlines()[0] == "klamm: INVALID_TOPIC_EXCEPTION"
    fields = [line.split(":")[1].strip() for line in refused.stderr.splitlines()[1:]]
    assert fields == ["name", "no.such", "retention.ms", "replication_factor"]
    refused = klamm(cluster, "brokers", "alter", "1", "--config", "a=1", "--config", "b=1", code=1)
    assert [line.split(":")[1].strip() for line in refused.stderr.splitlines()[1:]] == ["a", "b"]


def test_brokers_that_are_unknown_and_configs_without_effect_are_warned_of(cluster: LocalCluster) -> None:
    dry_run = ("--config", "num.replica.fetchers=2", "--dry-run")
    assert "warning: no broker or controller 9 is" in klamm(cluster, "brokers", "alter", "9", *dry_run).stderr
    assert "warning: 1001 is a controller" in klamm(cluster, "brokers", "alter", "1001", *dry_run).stderr
    assert klamm(cluster, "brokers", "alter", "1", *dry_run).stderr == "configs of broker 1 would be changed\n"
    described = as_json(cluster, "brokers", "describe", "1001", "--configs")
    (controller,) = described["controllers"]
    assert [c["name"] for c in controller["configs"]] == ["log.level", "unclean.leader.election.enable"]
    assert described["brokers"] == []


def test_a_producer_says_what_was_acknowledged(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "said", "--replica-assignment", "1:2")
    one = klamm(cluster, "produce", "said", stdin="a\n")
    assert one.stderr.startswith("1 record (0.00 MB) acknowledged in ")
    assert "sent without acknowledgement" in klamm(cluster, "produce", "said", "--acks", "0", stdin="a\n").stderr


def test_features_are_described_and_an_unsupported_level_is_refused(cluster: LocalCluster) -> None:
    assert as_json(cluster, "features", "describe") == {"enabled": True, "features": []}
    for dry_run in ([], ["--dry-run"]):
        answer = klamm(cluster, "features", "upgrade", "--feature", "f=1", "-o", "json", *dry_run, code=1)
        (row,) = json.loads(answer.stdout)["features"]
        assert (row["feature"], row["error"], row["before"], row["after"]) == ("f", "INVALID_REQUEST", None, None)


def test_reassignments_and_deletions_name_the_dead_broker_and_resume_when_it_is_back(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    klamm(cluster, "topics", "create", "leaving", "--replica-assignment", "1:3,3:2")
    klamm(cluster, "topics", "create", "stuck", "--replica-assignment", "1:2")
    klamm(cluster, "topics", "create", "cancelled", "--replica-assignment", "1:3")
    klamm(cluster, "topics", "create", "short", "--replica-assignment", "2:3")
    cluster.kill(f"{BROKER}-3")
    wait_until_dead(cluster, 3)
    states = {b["id"]: b["state"] for b in as_json(cluster, "brokers", "list")["brokers"]}
    assert states == {1: "running", 2: "running", 3: "dead"}
    unavailable = as_json(cluster, "topics", "describe", "--unavailable")["topics"]
    assert {(t["name"], p["partition"]) for t in unavailable for p in t["partitions"] if p["leader"] == -1} == {
        (t["name"], p["partition"]) for t in unavailable for p in t["partitions"]
    }
    assert "short" in klamm(cluster, "topics", "list", "--under-replicated").stdout

    def is_on_hold() -> bool:
        deleted = klamm(cluster, "topics", "delete", "leaving", "--yes", "--timeout", "5", "-o", "json", code=1)
        (pending,) = json.loads(deleted.stdout)["topics"]
        return pending["state"] == "on hold" and {w["broker"] for w in pending["waiting"]} == {3} and pending["reason"]

    eventually(is_on_hold, "the deletion waits for broker 3 alone, and says so")
    assert "topic leaving is being deleted" in klamm(cluster, "topics", "describe", "leaving").stderr

    file = tmp_path / "moves.json"
    file.write_text('{"partitions": [{"topic": "stuck", "partition": 0, "replicas": [3, 2]}]}')
    refused = klamm(cluster, "reassign", "execute", str(file), "-o", "json", code=1)
    assert json.loads(refused.stdout)["refused"][0]["error"] == "INVALID_REPLICA_ASSIGNMENT"
    cancelled = tmp_path / "cancelled.json"
    # Broker 3 is a replica already, so it need not be alive to be a target.
    cancelled.write_text('{"partitions": [{"topic": "cancelled", "partition": 0, "replicas": [2, 3]}]}')
    waited = klamm(cluster, "reassign", "execute", str(cancelled), "--wait", "--timeout", "5", "-o", "json", code=1)
    (unfinished,) = json.loads(waited.stdout)["unfinished"]
    assert "3" in unfinished["stuck_reason"]
    assert [t["alive"] for t in unfinished["targets"]] == [True, False]
    assert "REASSIGNMENT_IN_PROGRESS" in klamm(cluster, "reassign", "execute", str(file), code=1).stderr
    health = json.loads(klamm(cluster, "cluster", "health", "-o", "json", code=3).stdout)
    troubles = {f["kind"] for f in health["findings"]}
    assert {"dead_broker", "stuck_deletion", "stuck_reassignment", "under_replicated"} <= troubles
    klamm(cluster, "reassign", "cancel", str(cancelled))
    assert as_json(cluster, "reassign", "list")["reassignments"] == []
    # The order is the one they had while they were being moved.
    assert sorted(partitions(cluster, "cancelled")[0]["replicas"]) == [1, 3]

    start_and_wait(cluster, 3)
    klamm(cluster, "reassign", "execute", str(file), "--wait")
    eventually(
        lambda: all(t["name"] != "leaving" for t in as_json(cluster, "topics", "list")["topics"]),
        "the deletion continues",
    )
    klamm(cluster, "topics", "delete", "stuck", "--yes")
    left = [
        folder
        for broker in as_json(cluster, "status")["brokers"]
        for directory in broker["log_dirs"]
        for folder in Path(directory).glob("*-*")
        if folder.name.startswith(("leaving-", "stuck-")) and not folder.name.endswith("-delete")
    ]
    assert left == []


def test_shutdown_is_refused_while_partitions_are_at_risk(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "lonely", "--replica-assignment", "2")
    klamm(cluster, "topics", "create", "strict", "--replica-assignment", "2:1", "--config", "min.insync.replicas=2")
    before = partitions(cluster, "strict")
    refused = json.loads(klamm(cluster, "brokers", "shutdown", "2", "-o", "json", code=1).stdout)
    assert [t["topic"] for t in refused["leaderless"]] == ["lonely"]
    assert "strict" in {t["topic"] for t in refused["below_min_isr"]}
    planned = json.loads(klamm(cluster, "brokers", "shutdown", "2", "--dry-run", "-o", "json", code=3).stdout)
    moved = {c["topic"]: c["after"]["leader"] for c in planned["plan"]["changes"]}
    assert moved["strict"] == 1
    assert partitions(cluster, "strict") == before

    klamm(cluster, "brokers", "shutdown", "2", "--force")
    assert partitions(cluster, "strict")[0]["leader"] == 1
    eventually(lambda: cluster.state_of(f"{BROKER}-2") == identity.GONE, "the process of broker 2 ends")
    wait_until_dead(cluster, 2)
    assert "BROKER_ID_NOT_REGISTERED" in klamm(cluster, "brokers", "shutdown", "2", code=1).stderr
    start_and_wait(cluster, 2)

    elected = json.loads(klamm(cluster, "elect", "preferred", "--topic", "strict", "--dry-run", "-o", "json").stdout)
    assert elected["plan"]["changes"][0]["after"]["leader"] == 2
    assert partitions(cluster, "strict")[0]["leader"] == 1
    klamm(cluster, "elect", "preferred", "--topic", "strict")
    assert partitions(cluster, "strict")[0]["leader"] == 2


def test_interrupted_clients_report_their_progress(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "interrupted")
    command = [*LAUNCHER, "produce", "interrupted", "--data", str(cluster.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as producer:
        assert producer.stdin is not None
        producer.stdin.write("a line\n" * 100)
        producer.stdin.flush()
        # Follows until the first lines are there.
        command = [*LAUNCHER, "consume", "interrupted", "--from-beginning", "--data", str(cluster.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
            assert follower.stdout is not None
            try:
                assert follower.stdout.readline() == "a line\n"
                follower.send_signal(signal.SIGINT)
                assert "records in" in follower.communicate(timeout=TIMEOUT_S)[1]
                producer.send_signal(signal.SIGINT)
                # The answer to the last batch may still be on its way.
                assert 0 <= int(producer.communicate(timeout=TIMEOUT_S)[0]) <= 100
            finally:
                follower.kill()
                producer.kill()


def test_watch_streams_events_to_a_program(cluster: LocalCluster) -> None:
    command = [*LAUNCHER, "watch", "-o", "json", "--data", str(cluster.folder)]
    with subprocess.Popen([*command, "--topic", "watched"], stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        try:
            event: dict[str, Any] = {}
            deadline = time.monotonic() + TIMEOUT_S
            # The stream begins some time after the command does.
            while not event:
                assert time.monotonic() < deadline, "no event came"
                klamm(cluster, "topics", "create", "watched", "--replica-assignment", "1:2")
                klamm(cluster, "topics", "delete", "watched", "--yes")
                if select.select([follower.stdout], [], [], 1)[0]:
                    event = json.loads(follower.stdout.readline())
            assert event["topic"] == "watched"
            assert {"kind", "at_ms", "controller_epoch", "cursor"} <= event.keys()
            follower.send_signal(signal.SIGINT)
            assert follower.wait(TIMEOUT_S) == 130
        finally:
            follower.kill()  # Does nothing to a process that has ended.
    cursor = event["cursor"]
    later = klamm(cluster, "watch", "-o", "json", "--topic", "watched", "--since", cursor, "--for", "1").stdout
    assert all(json.loads(line)["cursor"] != cursor for line in later.splitlines())
