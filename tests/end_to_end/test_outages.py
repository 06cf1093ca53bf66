"""A real cluster through outages: ZooKeeper down, processes that hang, znodes made malformed by hand."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from cluster.process import identity
from cluster.process.local_cluster import CONTROLLER, ZOOKEEPER
from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]

SESSION_S = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path_factory.mktemp("outages") / "c", controllers=2, brokers=3) as running:
        yield running


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> Iterator[KazooClient]:
    with plain_client(cluster.state.zookeeper) as client:
        yield client


def works(cluster: LocalCluster, topic: str) -> None:
    """A topic can be created, written and read."""
    klamm(cluster, "topics", "create", topic, "--partitions", "3", "--replication-factor", "3")
    produced = klamm(cluster, "produce", topic, "--count", "200")
    assert int(re.findall(r"\d+", produced.stdout)[-1]) == 200
    read = klamm(cluster, "consume", topic, "--from-beginning", "--until-end").stdout.splitlines()
    assert len(read) == 200


def controller(cluster: LocalCluster) -> tuple[int, int]:
    """Id and epoch of the active controller."""
    found = as_json(cluster, "cluster", "describe")["controller"]
    return found["id"], found["epoch"]


def test_clients_that_start_while_zookeeper_is_down_work(cluster: LocalCluster) -> None:
    # Within a second of their start brokers may have no producer ids in reserve yet; whoever has given one has more.
    works(cluster, "before-outages")
    klamm(cluster, "topics", "create", "saved", "--partitions", "3", "--replication-factor", "3")
    cluster.kill(ZOOKEEPER)
    try:
        assert klamm(cluster, "produce", "saved", "--count", "10").stdout.split()[-1] == "10"
        read = klamm(cluster, "consume", "saved", "--from-beginning", "--until-end").stdout.splitlines()
        assert len(read) == 10
        refused = klamm(cluster, "topics", "create", "later", "--timeout", "2", code=1).stderr
        assert refused.startswith("klamm: controllers 1001, 1002 cannot reach ZooKeeper: no answer within 2 s;")
        status = as_json(cluster, "status", codes=(3,))
        assert status["zookeeper_state"] == identity.GONE
        assert {m["state"] for m in (*status["controllers"], *status["brokers"])} == {identity.RUNNING}
    finally:
        cluster.start(ZOOKEEPER)
        wait_until_serving(cluster, TIMEOUT_S)


READS = (("topics", "list"), ("topics", "describe"), ("brokers", "list"), ("cluster", "describe"))
OF_BROKERS = "warning: {}; this is from the metadata of the brokers, and may be out of date"
NO_ZOOKEEPER = "(controller 1001|controller 1002|controllers 1001, 1002) cannot reach ZooKeeper"


def reads_agree(cluster: LocalCluster, why: str) -> None:
    """Commands that only look, while no controller serves: the same source, warning and exit code."""
    warning = re.compile(OF_BROKERS.format(why))
    for command in READS:
        answer = klamm(cluster, *command, "-o", "json", "--timeout", "8")
        assert json.loads(answer.stdout)["source"] == "brokers", command
        assert any(map(warning.fullmatch, answer.stderr.splitlines())), (command, answer.stderr)
        assert sum("the brokers are asked in" in line for line in answer.stderr.splitlines()) == 1, command


def test_while_zookeeper_hangs_all_reads_are_of_the_brokers(cluster: LocalCluster) -> None:
    klamm(cluster, "topics", "create", "looked-at", "--partitions", "3", "--replication-factor", "3")
    cluster.pause(ZOOKEEPER)
    try:
        reads_agree(cluster, NO_ZOOKEEPER)
        time.sleep(1.5 * SESSION_S)  # Long enough that every session is over; the outage is what is tested.
        reads_agree(cluster, NO_ZOOKEEPER)
        brokers = as_json(cluster, "brokers", "list", "--timeout", "4")["brokers"]
        assert [(b["id"], b["epoch"], b["state"]) for b in brokers] == [(i, None, "unknown") for i in (1, 2, 3)]
    finally:
        cluster.resume(ZOOKEEPER)
        wait_until_serving(cluster, TIMEOUT_S)


def test_with_all_controllers_dead_brokers_serve_and_messages_say_so(cluster: LocalCluster) -> None:
    # Written and read: a creation is answered before the brokers know of it, and dead controllers tell them nothing.
    works(cluster, "uncontrolled")
    controllers = [member.name for member in cluster.members(CONTROLLER)]
    for name in controllers:
        cluster.kill(name)
    try:
        assert klamm(cluster, "produce", "uncontrolled", "--count", "10").stdout.split()[-1] == "10"
        status = as_json(cluster, "status", codes=(3,))
        assert {b["state"] for b in status["brokers"]} == {identity.RUNNING}
        assert {c["state"] for c in status["controllers"]} == {identity.GONE}
        eventually(
            lambda: (
                "no active controller within 2 s: controllers 1001, 1002 not answering (connection refused);"
                " brokers 1, 2, 3 running; 'klamm up --detach"
                in klamm(cluster, "reassign", "list", "--timeout", "2", code=1).stderr
            ),
            "the brokers know that no controller is active",
        )
        reads_agree(cluster, "no active controller answers")
        listed = as_json(cluster, "topics", "list", "--timeout", "4")
        assert (listed["source"], "uncontrolled" in {t["name"] for t in listed["topics"]}) == ("brokers", True)
        (topic,) = as_json(cluster, "topics", "describe", "uncontrolled", "--timeout", "4")["topics"]
        assert all(p["leader"] in {1, 2, 3} for p in topic["partitions"])
        described = as_json(cluster, "cluster", "describe", "--timeout", "4")
        assert (described["controller"], [b["id"] for b in described["brokers"]]) == (None, [1, 2, 3])
    finally:
        for name in controllers:
            cluster.start(name)
        wait_until_serving(cluster, TIMEOUT_S)


@pytest.mark.rule("EL-22", "EL-23", "ZC-3")
def test_every_process_is_back_after_a_restart_of_zookeeper(cluster: LocalCluster) -> None:
    before = {m.name: m.process for m in cluster.state.members}
    cluster.kill(ZOOKEEPER)
    time.sleep(1.5 * SESSION_S)  # Long enough that every session is over; the outage is what is tested.
    refused = klamm(cluster, "reassign", "list", "--timeout", "3", code=1)
    assert "cannot reach ZooKeeper" in refused.stderr
    cluster.start(ZOOKEEPER)
    wait_until_serving(cluster, TIMEOUT_S)
    works(cluster, "after-outage")
    after = {m.name: m.process for m in cluster.state.members}
    assert {name for name in before if before[name] != after[name]} == {ZOOKEEPER}


@pytest.mark.rule("EL-20", "EL-21", "FN-6", "C-4")
def test_a_controller_that_hung_beyond_its_session_is_fenced(cluster: LocalCluster) -> None:
    id_, epoch = controller(cluster)
    cluster.pause(f"{CONTROLLER}-{id_}")
    try:
        eventually(lambda: controller(cluster)[1] > epoch, "another controller")
        works(cluster, "while-one-sleeps")
    finally:
        cluster.resume(f"{CONTROLLER}-{id_}")
    wait_until_serving(cluster, TIMEOUT_S)
    works(cluster, "after-it-woke")
    assert controller(cluster)[1] == epoch + 1


@pytest.mark.rule("EV-7")
def test_sigterm_stops_a_controller_while_zookeeper_is_down(cluster: LocalCluster) -> None:
    id_, _ = controller(cluster)
    name = f"{CONTROLLER}-{id_}"
    process = cluster.member(name).process
    assert process is not None
    cluster.pause(ZOOKEEPER)
    try:
        subprocess.run(["kill", f"-{signal.SIGTERM}", str(process.pid)], check=True)
        eventually(lambda: cluster.state_of(name) == identity.GONE, "the end of the controller")
    finally:
        cluster.resume(ZOOKEEPER)
    cluster.start(name)
    wait_until_serving(cluster, TIMEOUT_S)


@pytest.mark.rule("LC-1", "LC-3", "LC-8", "BK-1", "ZK-28", "EL-9")
def test_malformed_znodes_are_logged_and_affect_nothing_else(cluster: LocalCluster, zookeeper: KazooClient) -> None:
    klamm(cluster, "topics", "create", "hurt", "--partitions", "1", "--replication-factor", "3")
    malformed = {
        "/brokers/ids/77": b'{"version":1,"host":"\xff","port":1}',
        "/brokers/topics/malformed-topic": b'{"partitions":{"0":[99999999999]}}',
        "/config/topics/hurt": b"not json",
        "/config/changes/config_change_0000009999": b"\xff",
        "/isr_change_notification/isr_change_0000009999": b"{",
        "/log_dir_event_notification/log_dir_event_0000009999": b"[]",
    }
    for path, data in malformed.items():
        zookeeper.set(path, data) if zookeeper.exists(path) else zookeeper.create(path, data)
    zookeeper.set("/brokers/topics/hurt/partitions/0/state", b'{"leader":1}')
    zookeeper.set("/feature", b"\xff\xff")
    works(cluster, "beside-malformed")
    id_, epoch = controller(cluster)
    cluster.kill(f"{CONTROLLER}-{id_}")
    cluster.start(f"{CONTROLLER}-{id_}")
    eventually(lambda: controller(cluster)[1] > epoch, "another controller")
    works(cluster, "after-malformed")
    logs = "".join(path.read_text() for path in (cluster.folder / "logs").glob(f"{CONTROLLER}-*"))
    for path in ("/brokers/ids/77", "/brokers/topics/malformed-topic", "/brokers/topics/hurt/partitions/0/state"):
        assert path in logs
    assert "99999999999" in logs
    # `/controller` itself.
    zookeeper.set("/controller", b"\xff")
    eventually(lambda: controller(cluster)[1] > epoch + 1, "a controller znode that can be found again")
    works(cluster, "after-the-controller-znode")
    for member in cluster.state.members:
        assert cluster.state_of(member.name) != identity.GONE, cluster.log_tail(member.name)


@pytest.mark.rule("ZK-20", "ZK-25")
def test_describe_agrees_with_the_znodes_after_all_that(cluster: LocalCluster, zookeeper: KazooClient) -> None:
    described = as_json(cluster, "topics", "describe", "after-outage")["topics"][0]
    node = json.loads(zookeeper.get("/brokers/topics/after-outage")[0])
    assert {str(p["partition"]): p["replicas"] for p in described["partitions"]} == node["partitions"]
    for partition in described["partitions"]:
        data, stat = zookeeper.get(f"/brokers/topics/after-outage/partitions/{partition['partition']}/state")
        state = json.loads(data)
        assert [partition[key] for key in ("leader", "leader_epoch", "isr")] == [
            state[key] for key in ("leader", "leader_epoch", "isr")
        ]
        assert partition["partition_epoch"] == stat.version
