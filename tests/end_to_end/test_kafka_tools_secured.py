"""Kafka's console tools on a secured cluster under klamm: with certificates, and with each mechanism of SASL.

Each tool is run at klamm's own Kafka listener and at a broker, as `--command-config` says who runs it.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cluster.process.local_cluster import CERTIFICATES, CONTROLLER
from cluster.tls.settings import AUTHORITY
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_jars import NEWEST
from tests.kafka.broker import kafka_class_path
from tests.kafka.tools import table, tool_command
from tests.processes.certificates import write_secret
from tests.processes.local_clusters import serving_cluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(2400)]

USER, PASSWORD = "bob", "of-a-test"
WEAK: Final = "carol"
"""A user without rights."""
MECHANISMS: Final = ("certificate", "SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
_MODULES: Final = {"PLAIN": "plain.PlainLoginModule"}
_SUPER_USERS: Final = f"User:CN=admin,O=klamm;User:CN=node,O=klamm;User:{USER}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    kafka_class_path(NEWEST)
    base = tmp_path_factory.mktemp("secured-tools")
    users = base / "plain-users"
    write_secret(users, "".join(f"{user}={PASSWORD}\n" for user in (USER, WEAK)).encode())
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in (USER, WEAK))
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_login_module('PLAIN')} {known};",
        "klamm.sasl.plain.users.file": str(users),
        "super.users": _SUPER_USERS,
    }
    options = {"controllers": 2, "brokers": 3, "kafka": NEWEST, "is_secured": True, "settings": settings}
    with serving_cluster(base / "cluster", **options) as cluster:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            for user in (USER, WEAK):
                credential = f"{mechanism}=[password={PASSWORD}]"
                named = ("--entity-type", "users", "--entity-name", user)
                done = _run(cluster, "certificate", "broker", "configs", *named, "--alter", "--add-config", credential)
                assert done.returncode == 0, done.stdout + done.stderr
        yield cluster


def _login_module(mechanism: str) -> str:
    return f"org.apache.kafka.common.security.{_MODULES.get(mechanism, 'scram.ScramLoginModule')} required"


def _config(cluster: LocalCluster, mechanism: str, user: str) -> Path:
    certificates = cluster.folder / CERTIFICATES
    if mechanism == "certificate":
        return certificates / "admin.properties"
    lines = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{_login_module(mechanism)} username="{user}" password="{PASSWORD}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates / AUTHORITY,
    }
    path = cluster.folder / f"{mechanism}-{user}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


def _run(
    cluster: LocalCluster, mechanism: str, where: str, tool: str, *arguments: str, user: str = USER
) -> subprocess.CompletedProcess[str]:
    members = cluster.members(CONTROLLER) if where == "klamm" else cluster.state.kafka_brokers
    has_certificate = mechanism == "certificate"
    certified = [m.kafka_address if where == "klamm" else m.address for m in members]
    bootstrap = ",".join(certified if has_certificate else [m.sasl_address for m in members])
    config = "--admin.config" if tool == "election" else "--command-config"
    options = ("--bootstrap-server", bootstrap, config, str(_config(cluster, mechanism, user)))
    command = tool_command(NEWEST, tool, (*options, *arguments), cluster.folder)
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def _verbs(cluster: LocalCluster, topic: str) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, tool, arguments, and what its output has to hold. Each relies on those before."""
    moves = cluster.folder / f"{topic}.json"
    moves.write_text(f'{{"version":1,"partitions":[{{"topic":"{topic}","partition":0,"replicas":[3,1]}}]}}')
    named = ("--topic", topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    yield "kafka-topics --create", "topics", ("--create", *named, "--replica-assignment", "1:2,2:3"), "Created topic"
    yield "kafka-topics --describe", "topics", ("--describe", *named), "PartitionCount: 2"
    yield (
        "kafka-configs --alter",
        "configs",
        (*of_topic, "--alter", "--add-config", "retention.ms=7200000"),
        "Completed",
    )
    yield "kafka-configs --describe", "configs", (*of_topic, "--describe"), "retention.ms=7200000"
    rule = ("--allow-principal", "User:x", "--operation", "Read", *named)
    yield "kafka-acls --add", "acls", ("--add", *rule), "Adding ACLs"
    yield "kafka-acls --list", "acls", ("--list", *named), "principal=User:x"
    execute = ("--reassignment-json-file", str(moves), "--execute")
    yield "kafka-reassign-partitions --execute", "reassign", execute, "Successfully started"
    verify = ("--reassignment-json-file", str(moves), "--verify")
    yield "kafka-reassign-partitions --verify", "reassign", verify, "is complete|in progress"
    elect = ("--election-type", "preferred", *named, "--partition", "1")
    yield "kafka-leader-election", "election", elect, "Successfully completed|Valid replica already elected"
    yield "kafka-consumer-groups --list", "groups", ("--list",), ""
    yield "kafka-topics --delete", "topics", ("--delete", *named), ""


def test_the_tools_work_with_each_mechanism(cluster: LocalCluster) -> None:
    columns = [(mechanism, where) for mechanism in MECHANISMS for where in ("klamm", "broker")]
    names = [name for name, *_ in _verbs(cluster, "none")]
    found: dict[tuple[str, str], dict[str, str]] = {}
    for mechanism, where in columns:
        topic = f"t-{mechanism}-{where}".lower()
        results = found[mechanism, where] = {}
        for name, tool, arguments, wanted in _verbs(cluster, topic):
            done = _run(cluster, mechanism, where, tool, *arguments)
            results[name] = _came_to(done, wanted)
    rows = [["tool", *(f"{mechanism} at {where}" for mechanism, where in columns)]]
    rows += [[name, *(found[column][name] for column in columns)] for name in names]
    print(f"\nKafka's tools {NEWEST} on a secured cluster under klamm\n{table(rows)}")
    assert {(column, name): text for column in columns for name, text in found[column].items() if text != "works"} == {}


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_users_without_rights_are_refused_alike(cluster: LocalCluster, mechanism: str) -> None:
    arguments = ("--create", "--topic", "not-allowed", "--partitions", "1", "--replication-factor", "1")
    for where in ("klamm", "broker"):
        done = _run(cluster, mechanism, where, "topics", *arguments, user=WEAK)
        assert done.returncode == 1
        assert "TopicAuthorizationException" in done.stdout + done.stderr


def test_the_tools_of_a_user_with_a_wrong_password_end_with_the_reason(cluster: LocalCluster) -> None:
    for where in ("klamm", "broker"):
        done = _run(cluster, "SCRAM-SHA-512", where, "topics", "--list", user="nobody")
        assert done.returncode == 1
        assert "SaslAuthenticationException" in done.stdout + done.stderr


def _came_to(done: subprocess.CompletedProcess[str], wanted: str) -> str:
    text = done.stdout + done.stderr
    if done.returncode == 0 and re.search(wanted, done.stdout):
        return "works"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    said = next((one for one in lines if "Exception" in one), (lines or ["nothing"])[-1])
    return f"code {done.returncode}: {said[:200]}"
