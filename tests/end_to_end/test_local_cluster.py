"""The embedded cluster through the command line: real processes, real ZooKeeper, kill -9."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from admin.connecting.client import AdminClient
from cluster.process import identity
from cluster.process.local_cluster import BROKER, CONTROLLER, Member
from cluster.requests.cluster import LogHead
from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from state_log.reader import complete_lines, find_segments
from state_log.record import CHAIN_START, line_digest
from tests.controllers.plain_zookeeper import plain_client
from tests.end_to_end.metric_names import AGENT_MOVES, CONTROLLER_MOVES, Exposed, exposed_by
from tests.processes.commands import as_json, klamm, run_klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three controllers, three brokers; tests start again what they kill."""
    with serving_cluster(tmp_path_factory.mktemp("cluster") / "c", controllers=3, brokers=3) as running:
        yield running


@pytest.fixture(autouse=True)
def _logs_on_failure(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for member in cluster.state.members:
        if cluster.state_of(member.name) == identity.GONE:
            sys.stdout.write(f"{member.name} is down: {cluster.log_tail(member.name)}\n")


def lines(start: int, end: int) -> str:
    return "".join(f"{number}\n" for number in range(start, end))


def consumed(cluster: LocalCluster, topic: str) -> list[int]:
    answer = klamm(cluster, "consume", topic, "--from-beginning", "--until-end")
    return [int(line) for line in answer.stdout.splitlines()]


def acknowledged(answer: subprocess.CompletedProcess[str]) -> int:
    return int(re.findall(r"\d+", answer.stdout)[-1])


def test_status_names_every_process_and_one_is_active(cluster: LocalCluster) -> None:
    status = as_json(cluster, "status")
    assert status["zookeeper"] == cluster.state.zookeeper
    assert isinstance(status["zookeeper_pid"], int)
    assert [c["id"] for c in status["controllers"]] == [1001, 1002, 1003]
    assert [b["id"] for b in status["brokers"]] == [1, 2, 3]
    assert {"id", "pid", "address", "metrics", "control", "active", "epoch"} <= set(status["controllers"][0])
    assert {"id", "pid", "address", "metrics", "control", "log_dirs", "state"} <= set(status["brokers"][0])
    assert all(Path(folder).is_dir() for folder in status["state_change_logs"])
    # A process that is busy just now may be silent for once.
    eventually(
        lambda: sum(c["active"] for c in as_json(cluster, "status", codes=(0, 3))["controllers"]) == 1, "one is active"
    )


def test_every_process_serves_its_metrics(cluster: LocalCluster) -> None:
    def active_count() -> float:
        families = [family for m in cluster.state.members if m.metrics_port for family in scrape(m)]
        samples = [sample for family in families if family.name == ACTIVE for sample in family.samples]
        assert len(samples) == 3
        return sum(sample.value for sample in samples)

    eventually(lambda: active_count() == 1, "one is active")


def scrape(member: Member) -> list[Metric]:
    """Kafka's and klamm's metrics as a process serves them, without those of the Python runtime."""
    with urlopen(f"http://127.0.0.1:{member.metrics_port}/metrics", timeout=TIMEOUT_S) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [family for family in families if family.name.startswith(("kafka_", "klamm_"))]


def exposed(families: list[Metric]) -> Exposed:
    return {
        (
            family.name,
            family.type,
            tuple(sorted(label for label in sample.labels if label not in {"quantile", "value"})),
        )
        for family in families
        for sample in family.samples
    }


def totals_of(families: list[Metric], topic: str) -> Counter[str]:
    """Values, or numbers of values, of everything but what belongs to other topics."""
    totals: Counter[str] = Counter()
    for sample in (sample for family in families for sample in family.samples):
        if "quantile" not in sample.labels and sample.labels.get("topic", topic) == topic:
            totals[sample.name.removesuffix("_total")] += int(sample.value)
    return totals


def unmoved(broker: Member) -> list[str]:
    counted = totals_of(scrape(broker), "measured")
    return [name for name in AGENT_MOVES if counted[name] <= 0]


def test_an_idle_follower_says_nothing_of_its_partitions(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "idle", "--partitions", "60", "--replication-factor", "3")
    api = {"request": "FetchFollower"}
    names = ("kafka_network_requestmetrics_requestbytes_count", "kafka_network_requestmetrics_requestbytes_sum")

    def fetched() -> tuple[float, float]:
        """The fetches of all followers so far, and their bytes."""
        families = [family for member in cluster.members(BROKER) for family in scrape(member)]
        samples = [sample for family in families for sample in family.samples if sample.labels == api]
        count, size = (sum(sample.value for sample in samples if sample.name == name) for name in names)
        return count, size

    def is_idle() -> bool:
        count, size = fetched()
        eventually(lambda: fetched()[0] >= count + 12, "followers fetch")
        later_count, later_size = fetched()
        # As many bytes for 120 partitions as for none; each of them would take some 60.
        return (later_size - size) / (later_count - count) < 100

    eventually(is_idle, "idle fetches name nothing")


def test_the_metrics_are_those_that_dashboards_for_kafka_ask_for(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "measured", "--partitions", "3", "--replication-factor", "3")
    # By their keys they go to every partition.
    klamm(cluster, "produce", "measured", stdin="".join(f"k{n}\t{n}\n" for n in range(300)))
    assert sorted(consumed(cluster, "measured")) == list(range(300))
    active_count = as_json(cluster, "cluster", "describe")["controller"]["id"]
    controller = cluster.member(f"{CONTROLLER}-{active_count}")
    assert exposed(scrape(controller)) == exposed_by(CONTROLLER)
    counted = totals_of(scrape(controller), "measured")
    assert [name for name in CONTROLLER_MOVES if counted[name] <= 0] == []
    assert counted["kafka_server_metadataloader_currentcontrollerid"] == active_count
    counted = Counter()
    for broker in cluster.members(BROKER):
        assert exposed(scrape(broker)) == exposed_by(BROKER)
        # What expires and what followers fetch is counted a moment later.
        eventually(lambda: not unmoved(broker), f"{broker.name} has counted everything")  # noqa: B023
        counted += totals_of(scrape(broker), "measured")
    # Once for the topic and once for all topics of the broker.
    assert counted["kafka_server_brokertopicmetrics_messagesinpersec"] >= 600
    assert counted["kafka_log_log_logendoffset"] == 900
    assert counted["kafka_cluster_partition_insyncreplicascount"] == 9
    assert counted["kafka_cluster_partition_underreplicated"] == 0


def test_describe_agrees_with_the_znodes(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "agree", "--partitions", "4", "--replication-factor", "3")
    described = as_json(cluster, "topics", "describe", "agree")["topics"][0]
    with plain_client(cluster.state.zookeeper) as client:
        topic = json.loads(client.get("/brokers/topics/agree")[0])
        assert topic["topic_id"] == described["topic_id"]
        assert len(described["partitions"]) == 4
        for partition in described["partitions"]:
            number = partition["partition"]
            data, stat = client.get(f"/brokers/topics/agree/partitions/{number}/state")
            state = json.loads(data)
            assert topic["partitions"][str(number)] == partition["replicas"]
            assert (state["leader"], state["leader_epoch"]) == (partition["leader"], partition["leader_epoch"])
            assert (state["isr"], stat.version) == (partition["isr"], partition["partition_epoch"])


def test_100_000_lines_are_produced_and_consumed(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "many", "--partitions", "6", "--replication-factor", "3")
    assert acknowledged(klamm(cluster, "produce", "many", stdin=lines(0, 100_000))) == 100_000
    read = consumed(cluster, "many")
    assert sorted(read) == list(range(100_000))


def test_keys_keep_their_order_and_offsets_and_limits_hold(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "keyed", "--partitions", "3", "--replication-factor", "1")
    klamm(cluster, "produce", "keyed", stdin="".join(f"k{n % 7}\t{n}\n" for n in range(700)))
    copied = klamm(cluster, "consume", "keyed", "--from-beginning", "--until-end", "-o", "json")
    klamm(cluster, "topics", "create", "copied")
    klamm(cluster, "produce", "copied", "--input", "json", "--compression", "zstd", stdin=copied.stdout)
    again = klamm(cluster, "consume", "copied", "--from-beginning", "--until-end", "-o", "json")
    fields = ("key", "value", "headers", "timestamp")
    records = [[json.loads(line) for line in answer.stdout.splitlines()] for answer in (copied, again)]
    before, after = (sorted([r[field] for field in fields] for r in of) for of in records)
    assert before == after
    answer = klamm(cluster, "consume", "keyed", "--from-beginning", "--until-end", "--with-keys")
    by_key: dict[str, list[int]] = {}
    for line in answer.stdout.splitlines():
        key, value = line.split("\t")
        by_key.setdefault(key, []).append(int(value))
    assert by_key == {f"k{k}": list(range(k, 700, 7)) for k in range(7)}

    assert acknowledged(klamm(cluster, "produce", "keyed", "--partition", "1", "--count", "20", "--acks", "1")) == 20
    tail = klamm(cluster, "consume", "keyed", "--partition", "1", "--offset", "2", "-n", "3")
    assert len(tail.stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topics", "create", "bad name"], "INVALID_TOPIC_EXCEPTION"),
        (["topics", "create", "wide", "--replication-factor", "9"], "INVALID_REPLICATION_FACTOR"),
        (
            ["topics", "create", "huge", "--partitions", "2000000000"],
            "INVALID_PARTITIONS: topics.num_partitions: 2000000000",
        ),
        (["topics", "create", "large", "--partitions", "100000"], "POLICY_VIOLATION: topics.num_partitions: "),
        (["topics", "create", "uneven", "--config", "no.such.key=1"], "INVALID_CONFIG"),
        (["topics", "describe", "no-such-topic"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["produce", "no-such-topic", "--count", "1"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["consume", "no-such-topic", "--until-end"], "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_refusals_name_kafkas_error(cluster: LocalCluster, arguments: list[str], message: str) -> None:
    assert message in klamm(cluster, *arguments, code=1).stderr


def test_a_topic_that_exists_or_collides_is_refused(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "one.name")
    assert "TOPIC_ALREADY_EXISTS" in klamm(cluster, "topics", "create", "one.name", code=1).stderr
    assert "collides" in klamm(cluster, "topics", "create", "one_name", code=1).stderr


def test_killing_the_leader_loses_no_acknowledged_record(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "killed", "--partitions", "6", "--replication-factor", "3")
    assert acknowledged(klamm(cluster, "produce", "killed", stdin=lines(0, 20_000))) == 20_000
    victim = partitions(cluster, "killed")[0]["leader"]
    cluster.kill(f"{BROKER}-{victim}")
    half_dead = {b["id"]: b["state"] for b in as_json(cluster, "status", codes=(3,))["brokers"]}
    assert half_dead[victim] == identity.GONE
    assert acknowledged(klamm(cluster, "produce", "killed", stdin=lines(20_000, 40_000))) == 20_000
    assert victim not in {p["leader"] for p in partitions(cluster, "killed")}
    assert sorted(set(consumed(cluster, "killed"))) == list(range(40_000))

    cluster.start(f"{BROKER}-{victim}")
    wait_until_serving(cluster, TIMEOUT_S)
    eventually(lambda: all(len(p["isr"]) == 3 for p in partitions(cluster, "killed")), "its replicas are in sync again")
    story = as_json(cluster, "story", "killed-0")
    assert [r["leader_epoch"] for r in story["leaderships"]][:2] == [0, 1]


def test_a_killed_controller_is_followed_by_one_with_the_next_epoch(cluster: LocalCluster) -> None:
    before = as_json(cluster, "cluster", "describe")["controller"]
    klamm(cluster, "topics", "create", "before-failover")
    cluster.kill(f"{CONTROLLER}-{before['id']}")
    cluster.start(f"{CONTROLLER}-{before['id']}")
    wait_until_serving(cluster, TIMEOUT_S)
    after = as_json(cluster, "cluster", "describe")["controller"]
    assert after["epoch"] == before["epoch"] + 1
    klamm(cluster, "topics", "create", "after-failover", "--partitions", "3", "--replication-factor", "3")
    assert acknowledged(klamm(cluster, "produce", "after-failover", "--count", "100")) == 100
    # One address leads to everybody, to those who were active as well.
    answer = run_klamm("story", "before-failover-0", "-o", "json", "--bootstrap", cluster.bootstrap[-1])
    tellers = {record["node"] for record in json.loads(answer.stdout)["records"]}
    assert tellers >= {f"controller-{before['id']}", f"controller-{after['id']}"}


def test_a_broker_restarted_within_its_old_session_registers_again(cluster: LocalCluster) -> None:
    cluster.kill(f"{BROKER}-2")
    cluster.start(f"{BROKER}-2")
    described = wait_until_serving(cluster, TIMEOUT_S)
    assert {int(b.id) for b in described.brokers} == {1, 2, 3}


def test_story_of_live_nodes_is_that_of_the_files(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "storied", "--partitions", "1", "--replication-factor", "3")

    def in_files() -> list[Any]:
        records: list[Any] = as_json(cluster, "story", "storied-0")["records"]
        return records

    def agree() -> bool:
        before = in_files()
        # Any address leads to all nodes, also that of a controller which is not active.
        bootstraps = [",".join(cluster.bootstrap), *cluster.bootstrap]
        answers = [run_klamm("story", "storied-0", "-o", "json", "--bootstrap", b) for b in bootstraps]
        asked = [json.loads(answer.stdout) for answer in answers]
        assert [answer["missing_nodes"] for answer in asked] == [[]] * len(bootstraps)
        # Followers take over what they were told after the command is done.
        still_growing = in_files() != before
        assert still_growing or [answer["records"] for answer in asked] == [before] * len(bootstraps)
        return not still_growing

    eventually(agree, "the story is at its end")


def test_the_story_of_an_election_names_its_request_on_the_lines_of_all_nodes(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "elected", "--partitions", "1", "--replication-factor", "3")
    preferred = partitions(cluster, "elected")[0]["leader"]
    cluster.kill(f"{BROKER}-{preferred}")
    eventually(lambda: partitions(cluster, "elected")[0]["leader"] not in {preferred, -1}, "another broker leads")
    cluster.start(f"{BROKER}-{preferred}")
    wait_until_serving(cluster, TIMEOUT_S)
    eventually(lambda: len(partitions(cluster, "elected")[0]["isr"]) == 3, "it is in sync again")
    klamm(cluster, "elect", "preferred", "--topic", "elected")

    def lines_of_election() -> list[tuple[dict[str, Any], str]]:
        found = as_json(cluster, "story", "elected-0")
        pairs = zip(found["records"], found["story"], strict=True)
        return [
            (record, line["message"]) for record, line in pairs if "ElectLeadersReceived" in str(record.get("cause"))
        ]

    eventually(lambda: len(lines_of_election()) == 4, "the controller and all agents have recorded it")
    (elected, _), *roles = lines_of_election()
    assert (elected["kind"], elected["leader"], elected["principal"]) == ("partition", preferred, "ANONYMOUS")
    assert re.fullmatch("[0-9a-f]{32}", elected["request_id"])
    assert re.match("ipv[46]:", elected["peer"])
    assert {role["broker"] for role, _ in roles} == {1, 2, 3}
    controller = int(elected["node"].removeprefix("controller-"))
    whole_cause = {**elected["cause"], "controller": controller, "controller_epoch": elected["controller_epoch"]}
    for role, _ in roles:
        assert role["cause"] == whole_cause
        assert (role["request_id"], role["peer"]) == (elected["request_id"], elected["peer"])
    request = f"ElectLeaders, request id {elected['request_id']}, from {elected['peer']}, at "
    assert all(request in message for _, message in lines_of_election())
    why = as_json(cluster, "story", "elected-0")["leaderships"][-1]["why"]
    assert why.startswith("ElectLeaders, Preferred, ")
    assert request.removeprefix("ElectLeaders, ") in why


def test_every_process_says_where_its_state_change_log_ends(cluster: LocalCluster) -> None:
    folders = [Path(folder) for folder in as_json(cluster, "status")["state_change_logs"]]

    async def ask() -> list[LogHead]:
        async with AdminClient(cluster.bootstrap, timeout_ms=TIMEOUT_S * 1000) as client:
            return [head for address in cluster.bootstrap for head in await client.describe_log_heads(address)]

    def agree() -> bool:
        heads = asyncio.run(ask())
        # One that was started again and has written nothing says where its run before ended, too.
        own = [head for head in heads if head.boot_id]
        assert sorted(head.node for head in own) == sorted(
            [f"broker-{n}" for n in (1, 2, 3)] + [f"controller-{n}" for n in (1001, 1002, 1003)]
        )
        assert len({head.boot_id for head in own}) == 1
        return all(head.digest in digests(head.node, head.incarnation) for head in heads)

    def digests(node: str, incarnation: str) -> list[str]:
        segments = [path for path in find_segments(folders) if path.name.startswith(f"{node}-{incarnation}-")]
        lines = [line for path in segments for line in complete_lines(path)]
        return [line_digest(lines[-1])] if lines else [CHAIN_START]

    # What is appended between the question and the look into the files makes them differ for once.
    eventually(agree, "files and heads agree")


def test_a_story_names_the_nodes_that_did_not_answer(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "silence", "--partitions", "1", "--replication-factor", "3")
    known = cluster.member(f"{BROKER}-1").address

    def story_of() -> Any:
        answer = run_klamm("story", "silence-0", "-o", "json", "--timeout", "2", "--bootstrap", known)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    active = cluster.member(f"{CONTROLLER}-{as_json(cluster, 'cluster', 'describe')['controller']['id']}")
    cluster.pause(active.name)
    try:
        # Until its session ends a controller that hangs is still the active controller.
        story = story_of()
    finally:
        cluster.resume(active.name)
    assert active.address in story["missing_nodes"]
    assert "broker-1" in {record["node"] for record in story["records"]}
    cluster.kill(f"{BROKER}-3")
    eventually(lambda: story_of()["missing_nodes"] == ["broker-3"], "the dead broker is named")
    cluster.start(f"{BROKER}-3")
    wait_until_serving(cluster, TIMEOUT_S)


@pytest.mark.deep
def test_down_stops_every_process_and_up_keeps_the_records(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    klamm(folder, "up", "--detach", "--controllers", "1", "--brokers", "2")
    own = LocalCluster.open(folder)
    try:
        klamm(own, "topics", "create", "kept", "--partitions", "2", "--replication-factor", "2")
        klamm(own, "produce", "kept", stdin=lines(0, 1_000))
        klamm(own, "down")
        assert all(own.state_of(m.name) == identity.GONE for m in own.state.members)
        klamm(own, "up", "--detach", "--brokers", "3")
        assert sorted(consumed(own, "kept")) == list(range(1_000))
        assert len(as_json(own, "brokers", "list")["brokers"]) == 3
    finally:
        klamm(own, "down")


@pytest.mark.deep
def test_up_in_the_foreground_stops_its_processes_on_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    command = [
        sys.executable,
        "-P",
        "-m",
        "klamm",
        "up",
        "--controllers",
        "1",
        "--brokers",
        "1",
        "--data",
        str(folder),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as foreground:
        assert foreground.stderr is not None
        for line in foreground.stderr:
            if "Ctrl-C" in line:
                break
        own = LocalCluster.open(folder)
        assert all(own.state_of(m.name) == identity.RUNNING for m in own.state.members)
        foreground.send_signal(signal.SIGINT)
        assert foreground.wait(TIMEOUT_S) == 0
    assert all(own.state_of(m.name) == identity.GONE for m in own.state.members)


@pytest.mark.deep
@pytest.mark.parametrize("options", [(), ("--secure",)])
def test_the_demonstration_passes(options: tuple[str, ...], tmp_path: Path) -> None:
    answer = klamm(tmp_path / "demo", "demo", *options, "-o", "json")
    assert ("every port under TLS" in answer.stderr) is bool(options)
    found = json.loads(answer.stdout)
    assert (found["lost"], found["out_of_order"], found["audit"]) == (0, 0, "clean")
    assert found["acknowledged"] == found["read_back"] >= 50_000
    assert found["leader_failover_ms"][0] > 0
    assert found["controller_failover_ms"][0] > 0
    assert "one-leader-per-epoch" in found["injected_findings"]
