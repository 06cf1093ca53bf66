"""The command line on a cluster whose brokers are of Apache Kafka, as it is typed."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator

import msgspec
import pytest

from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.broker import BrokerId, ControllerId
from cluster.model.errors import ErrorCode
from cluster.model.exit_codes import ExitCode
from cluster.requests.cluster import DescribedController, Finding
from cluster.requests.quotas import ClientQuotaEntity, ClientQuotaEntry, ClientQuotaValue
from cluster.requests.users import DescribeUserScramCredentialsResult, ScramCredentialInfo
from state_log.record import CHAIN_START, STATE_CHANGE_VERSION, Cause, Kind, LoggedStateChange
from tests.kafka.governed import CONTROLLER, LOG_DIR, TOPIC, KafkaGoverned, kafka_governed
from tests.processes.commands import run_klamm


@pytest.fixture
async def cluster() -> AsyncIterator[KafkaGoverned]:
    async with kafka_governed() as served:
        yield served


async def klamm(
    cluster: KafkaGoverned, *arguments: str, code: int = 0, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    answer = await asyncio.to_thread(run_klamm, *arguments, "--bootstrap", cluster.address, stdin=stdin)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer


async def test_a_sound_cluster_is_healthy(cluster: KafkaGoverned) -> None:
    answer = await klamm(cluster, "cluster", "health")
    assert "2 brokers, 1 topic, 3 partitions: no issues" in answer.stderr


async def test_health_asks_again_before_it_calls_a_broker_dead(cluster: KafkaGoverned) -> None:
    """Between the description of the brokers and that of the topics the controller may have changed."""
    cluster.knows_brokers_after = 2
    answer = await klamm(cluster, "cluster", "health")
    assert "2 brokers, 1 topic, 3 partitions: no issues" in answer.stderr


@pytest.mark.parametrize(
    ("kind", "severity", "codes"),
    [
        ("imbalanced_leaders", "info", {"info": 3, "warning": 0, "critical": 0}),
        ("under_replicated", "warning", {"info": 3, "warning": 3, "critical": 0}),
        ("refuses_controller", "critical", {"info": 3, "warning": 3, "critical": 3}),
    ],
)
async def test_which_issues_are_an_exit_code_is_chosen_by_severity(
    cluster: KafkaGoverned, kind: str, severity: str, codes: dict[str, int]
) -> None:
    cluster.findings = (Finding(kind, "as it is", broker=BrokerId(1)),)
    assert (await klamm(cluster, "cluster", "health", code=3)).stdout.splitlines()[1].split()[:2] == [severity, kind]
    for at_least, code in codes.items():
        answer = await klamm(cluster, "cluster", "health", "--at-least", at_least, "-o", "json", code=code)
        document = json.loads(answer.stdout)
        assert (document["healthy"], document["severity"]) == (False, severity)
        assert [(f["kind"], f["severity"]) for f in document["findings"]] == [(kind, severity)]
        above = "" if at_least == "info" else f", {'1' if code else 'none'} of them {at_least} or above"
        assert answer.stderr.splitlines()[0] == f"2 brokers, 1 topic, 3 partitions: 1 issue{above}"
    assert (await klamm(cluster, "cluster", "health", "--at-least", "bad", code=2)).stdout == ""


async def test_health_finds_failed_log_directories(cluster: KafkaGoverned) -> None:
    cluster.log_dir_error = ErrorCode.KAFKA_STORAGE_ERROR
    answer = await klamm(cluster, "cluster", "health", "-o", "json", code=ExitCode.FINDINGS)
    found = [(f["kind"], f["broker"]) for f in json.loads(answer.stdout)["findings"]]
    assert found == [("failed_log_directory", 1), ("failed_log_directory", 2)]


@pytest.mark.rule("D-111")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "requests_not_authorized"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "requests_fail"),
    ],
)
async def test_a_broker_that_refuses_to_be_examined_is_an_issue_and_the_others_are_examined(
    cluster: KafkaGoverned, code: ErrorCode, kind: str
) -> None:
    cluster.log_dir_error = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.log_dirs_refused[1] = code
    answer = await klamm(cluster, "cluster", "health", "-o", "json", code=ExitCode.FINDINGS)
    refused, failed = json.loads(answer.stdout)["findings"]
    assert (refused["kind"], refused["broker"]) == (kind, 1)
    assert refused["detail"].startswith("broker 1 does not say what is wrong with it, as with its log directories: ")
    assert code.name in refused["detail"]
    assert (failed["kind"], failed["broker"]) == ("failed_log_directory", 2)


async def test_health_says_which_brokers_it_cannot_ask(cluster: KafkaGoverned) -> None:
    cluster.security_protocol = "SSL"
    answer = await klamm(cluster, "cluster", "health")
    assert "not checked: log directories of brokers 1, 2, which take SSL only" in answer.stderr


@pytest.mark.parametrize(("command", "who"), [("clients", "no client id has a quota"), ("users", "no user has a")])
async def test_what_gives_a_quota_is_a_tool_that_kafkas_brokers_take(
    cluster: KafkaGoverned, command: str, who: str
) -> None:
    answer = await klamm(cluster, command, "list")
    assert who in answer.stderr
    assert "kafka-configs.sh at a broker" in answer.stderr
    assert f"klamm {command} alter" not in answer.stderr


async def test_one_who_is_called_default_is_not_the_default_of_all(cluster: KafkaGoverned) -> None:
    rate = (ClientQuotaValue("producer_byte_rate", "5"),)
    cluster.quotas = (
        ClientQuotaEntry((ClientQuotaEntity("user", None),), rate),
        ClientQuotaEntry((ClientQuotaEntity("client-id", None),), rate),
        ClientQuotaEntry((ClientQuotaEntity("client-id", "default"),), rate),
    )
    info = ScramCredentialInfo(2, 4096)
    cluster.users = (DescribeUserScramCredentialsResult("default", ErrorCode.NONE, credential_infos=(info,)),)
    users = json.loads((await klamm(cluster, "users", "list", "-o", "json")).stdout)["users"]
    assert [(user["user"], len(user["mechanisms"]), len(user["configs"])) for user in users] == [
        ("<default>", 0, 1),
        ("default", 1, 0),
    ]
    clients = json.loads((await klamm(cluster, "clients", "list", "-o", "json")).stdout)["clients"]
    assert [client["client"] for client in clients] == ["<default>", "default"]


async def test_the_kind_of_the_brokers_is_shown(cluster: KafkaGoverned) -> None:
    assert "brokers of Apache Kafka" in (await klamm(cluster, "cluster", "describe")).stdout
    assert json.loads((await klamm(cluster, "cluster", "describe", "-o", "json")).stdout)["broker_protocol"] == "kafka"
    header, *rows = (await klamm(cluster, "brokers", "list")).stdout.splitlines()
    assert header.split()[-1] == "KIND"
    assert [row.split()[-1] for row in rows] == ["kafka", "kafka"]
    assert json.loads((await klamm(cluster, "brokers", "list", "-o", "json")).stdout)["broker_protocol"] == "kafka"


@pytest.mark.rule("D-110")
async def test_every_controller_is_described(cluster: KafkaGoverned) -> None:
    assert "no standby controller" in (await klamm(cluster, "cluster", "describe")).stdout
    cluster.standbys = (
        DescribedController(ControllerId(1002), "h2:9701"),
        DescribedController(ControllerId(1003), "h3:9701", "it would not admit broker 2"),
    )
    lines = (await klamm(cluster, "cluster", "describe")).stdout.splitlines()
    assert lines[1:4] == [
        f"controller 1001 at {cluster.address}, epoch 1",
        "controller 1002 at h2:9701, standby",
        "controller 1003 at h3:9701, does not stand for election: it would not admit broker 2",
    ]
    document = json.loads((await klamm(cluster, "cluster", "describe", "-o", "json")).stdout)
    assert document["controller"] == {"id": 1001, "address": cluster.address, "epoch": 1}
    assert document["controllers"] == [
        {"id": 1001, "address": cluster.address, "is_active": True, "unfit": ""},
        {"id": 1002, "address": "h2:9701", "is_active": False, "unfit": ""},
        {"id": 1003, "address": "h3:9701", "is_active": False, "unfit": "it would not admit broker 2"},
    ]


async def test_the_address_of_a_kafka_broker_is_named_as_such(cluster: KafkaGoverned) -> None:
    address = cluster.broker_address(1)
    answer = await asyncio.to_thread(run_klamm, "topics", "list", "--bootstrap", address)
    assert answer.returncode == 1
    assert answer.stderr == (
        f"klamm: no answer: {address} not answering (it speaks Kafka's protocol: name the address that a controller of"
        " klamm has as --listen); --bootstrap has this address: correct it, or start the cluster\n"
    )


async def test_a_shutdown_is_planned_and_its_signal_named(cluster: KafkaGoverned) -> None:
    answer = await klamm(cluster, "brokers", "shutdown", "2", code=ExitCode.REFUSED)
    assert "SIGTERM" in answer.stderr
    assert "broker 2 on 127.0.0.1" in answer.stderr
    assert "no changes" in answer.stdout.lower()
    assert "SIGTERM" in (await klamm(cluster, "brokers", "shutdown", "2", "--dry-run")).stderr
    assert not any(peer.connections for peer in cluster.peers.values())


async def test_log_directories_are_listed(cluster: KafkaGoverned) -> None:
    answer = await klamm(cluster, "brokers", "log-dirs")
    header, first, second = (line.split() for line in answer.stdout.splitlines())
    assert header == ["BROKER", "LOG_DIR", "REPLICAS", "FUTURE", "SIZE_BYTES", "OFFSET_LAG", "USABLE_BYTES", "STATE"]
    assert first[:7] == ["1", LOG_DIR, "1", "0", "1000", "1", "4000"]
    assert second[:2] == ["2", LOG_DIR]
    answer = await klamm(cluster, "brokers", "log-dirs", "2", "--topic", TOPIC, "-o", "json")
    (broker,) = json.loads(answer.stdout)["brokers"]
    (log_dir,) = broker["log_dirs"]
    assert log_dir["replicas"] == [
        {"topic": TOPIC, "partition": 0, "size_bytes": 1000, "offset_lag": 2, "is_future": False}
    ]
    unknown = await klamm(cluster, "brokers", "log-dirs", "7", code=ExitCode.REFUSED)
    assert "no broker 7" in unknown.stderr


async def test_brokers_that_do_not_answer_are_named(cluster: KafkaGoverned) -> None:
    del cluster.peers[2].answers[ApiKey.DESCRIBE_LOG_DIRS]
    answer = await klamm(cluster, "brokers", "log-dirs", code=ExitCode.REFUSED)
    assert [line.split()[0] for line in answer.stdout.splitlines()[1:]] == ["1"]
    assert "broker 2 does not answer" in answer.stderr


async def test_records_are_deleted_and_offsets_shown(cluster: KafkaGoverned) -> None:
    deleted = await klamm(cluster, "topics", "delete-records", f"{TOPIC}-0", "--before-offset", "10", "--yes")
    assert "records of 1 partition deleted" in deleted.stderr
    shown = await klamm(cluster, "topics", "offsets", TOPIC)
    assert [line.split() for line in shown.stdout.splitlines()[1:]] == [
        [TOPIC, "0", "10", "100"],
        [TOPIC, "1", "0", "50"],
        [TOPIC, "2", "0", "0"],
    ]


async def test_what_a_cluster_is_busy_with_is_shown(cluster: KafkaGoverned) -> None:
    answer = await klamm(cluster, "top", "--once", "-o", "json")
    assert [broker["leaders"] for broker in json.loads(answer.stdout)["brokers"]] == [2, 1]


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        (("produce", TOPIC), "kafka-console-producer.sh"),
        (("consume", TOPIC, "--from-beginning"), "kafka-console-consumer.sh"),
    ],
)
async def test_records_are_left_to_kafkas_tools(cluster: KafkaGoverned, command: tuple[str, ...], tool: str) -> None:
    answer = await klamm(cluster, *command, code=ExitCode.REFUSED, stdin="never read\n")
    addresses = f"{cluster.broker_address(1)},{cluster.broker_address(2)}"
    assert f"{tool} --bootstrap-server {addresses} --topic {TOPIC}" in answer.stderr
    assert not answer.stdout
    assert not any(peer.connections for peer in cluster.peers.values())


async def test_a_story_asks_controllers_only_and_says_where_the_rest_is(cluster: KafkaGoverned) -> None:
    record = LoggedStateChange(
        v=STATE_CHANGE_VERSION,
        seq=0,
        prev=CHAIN_START,
        node=f"controller-{CONTROLLER}",
        incarnation="a",
        at_ms=1,
        kind=Kind.PARTITION,
        topic=TOPIC,
        partition=0,
        from_state="NewPartition",
        to_state="OnlinePartition",
        cause=Cause("CreateTopics"),
    )
    cluster.log_lines = (msgspec.json.encode(record),)
    answer = await klamm(cluster, "story", f"{TOPIC}-0")
    assert "did not answer" not in answer.stderr
    assert "state-change.log" in answer.stderr
    assert "CreateTopics" in answer.stdout
    assert not any(peer.connections for peer in cluster.peers.values())


async def test_heads_of_logs_are_asked_of_controllers_only(cluster: KafkaGoverned) -> None:
    answer = await klamm_heads(cluster)
    assert [head["node"] for head in json.loads(answer.stdout)["heads"]] == [f"controller-{CONTROLLER}"]
    assert "left out" not in answer.stderr
    assert not any(peer.connections for peer in cluster.peers.values())


async def klamm_heads(cluster: KafkaGoverned) -> subprocess.CompletedProcess[str]:
    answer = await asyncio.to_thread(run_klamm, "audit", "heads", "--bootstrap", cluster.address)
    assert answer.returncode == 0, answer.stderr
    return answer
