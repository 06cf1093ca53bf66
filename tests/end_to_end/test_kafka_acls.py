"""Kafka's own kafka-acls and `klamm acls` write the same rules, and klamm obeys those of either."""

import subprocess
from pathlib import Path

import pytest

from cluster.process.local_cluster import BROKER, CERTIFICATES
from cluster.tls.authority import client, write_certificates
from cluster.tls.settings import AUTHORITY
from deploy.local.cluster import LocalCluster
from tests.kafka.tools import tool_command
from tests.processes.commands import as_json, klamm, run_klamm
from tests.processes.local_clusters import eventually, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:root",
}


def kafka_acls(cluster: LocalCluster, folder: Path, *arguments: str) -> str:
    options = ["--authorizer-properties", f"zookeeper.connect={cluster.state.zookeeper}", *arguments]
    if cluster.state.is_secured:
        options += ["--authorizer-properties", "zookeeper.set.acl=true"]
        options += ["--zk-tls-config-file", str(zookeeper_tls(cluster, folder))]
    command = tool_command("3.9.1", "acls", options, folder)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def zookeeper_tls(cluster: LocalCluster, folder: Path) -> Path:
    """With this the tool is one of the nodes, to which the znodes belong."""
    certificates = cluster.folder / CERTIFICATES
    path = folder / "zookeeper-tls.properties"
    path.write_text(
        "zookeeper.ssl.client.enable=true\n"
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        "zookeeper.ssl.protocol=TLSv1.3\n"
        "zookeeper.ssl.keystore.type=PEM\nzookeeper.ssl.truststore.type=PEM\n"
        f"zookeeper.ssl.keystore.location={certificates / 'broker-1.pem'}\n"
        f"zookeeper.ssl.truststore.location={certificates / AUTHORITY}\n"
    )
    return path


def test_each_tool_sees_and_removes_what_the_other_one_added(tmp_path: Path) -> None:
    with serving_cluster(tmp_path / "c", controllers=1, brokers=1, settings=SETTINGS) as cluster:
        klamm(cluster, "topics", "create", "orders")

        def topics() -> list[str]:
            return [topic["name"] for topic in as_json(cluster, "topics", "list")["topics"]]

        assert topics() == ["orders"]
        kafka_acls(
            cluster,
            tmp_path,
            "--add",
            "--deny-principal",
            "User:ANONYMOUS",
            "--operation",
            "Describe",
            "--topic=orders",
        )
        eventually(lambda: topics() == [], "the rule of Kafka's tool is obeyed")
        [rule] = as_json(cluster, "acls", "list")["acls"]
        assert (rule["resource_name"], rule["permission"], rule["operation"]) == ("orders", "Deny", "Describe")
        klamm(cluster, "acls", "remove", "--topic", "orders", "--yes")
        assert "orders" not in kafka_acls(cluster, tmp_path, "--list")
        eventually(lambda: topics() == ["orders"], "its removal is obeyed")
        prefixed = ("--topic", "pay", "--resource-pattern-type", "prefixed")
        klamm(cluster, "acls", "add", "--allow-principal", "User:alice", "--producer", *prefixed)
        listed = kafka_acls(cluster, tmp_path, "--list")
        assert "resourceType=TOPIC, name=pay, patternType=PREFIXED" in listed
        assert listed.count("principal=User:alice, host=*") == 3
        kafka_acls(cluster, tmp_path, "--remove", "--force", "--topic=pay", "--resource-pattern-type=prefixed")
        assert as_json(cluster, "acls", "list")["acls"] == []


def test_kafkas_tool_governs_the_rights_in_a_secured_cluster_and_klamms_too(tmp_path: Path) -> None:
    with serving_cluster(tmp_path / "c", controllers=2, brokers=2, is_secured=True) as cluster:
        klamm(cluster, "topics", "create", "orders", "--partitions", "2", "--replication-factor", "2")
        write_certificates(cluster.folder / CERTIFICATES, [client("alice"), client("bob")], days=30)
        where = ("--bootstrap", cluster.members(BROKER)[0].address, "--command-config")

        def produced(who: str) -> subprocess.CompletedProcess[str]:
            config = str(cluster.folder / CERTIFICATES / f"{who}.properties")
            return run_klamm("produce", "orders", *where, config, stdin="record\n")

        assert "no right to topic 'orders'" in produced("alice").stderr
        alice, bob = "User:CN=alice,O=klamm", "User:CN=bob,O=klamm"
        kafka_acls(cluster, tmp_path, "--add", "--allow-principal", alice, "--producer", "--topic=orders")
        eventually(lambda: produced("alice").returncode == 0, "the rule of Kafka's tool is obeyed")
        assert "no right to topic 'orders'" in produced("bob").stderr
        listed = as_json(cluster, "acls", "list")["acls"]
        assert {(acl["resource_name"], acl["principal"]) for acl in listed if acl["principal"] == alice} == {
            ("orders", alice)
        }
        klamm(cluster, "acls", "add", "--allow-principal", bob, "--producer", "--topic", "orders")
        shown = kafka_acls(cluster, tmp_path, "--list")
        assert shown.count(f"principal={alice}, host=*") == shown.count(f"principal={bob}, host=*") == 3
        assert produced("bob").returncode == 0
        kafka_acls(cluster, tmp_path, "--remove", "--force", "--topic=orders")
        eventually(lambda: produced("alice").returncode != 0, "its removal is obeyed")
        assert as_json(cluster, "acls", "list")["acls"] == []
        # What Kafka's tool wrote belongs to the nodes, as all else.
        checks = as_json(cluster, "doctor", codes=(0, 3))["checks"]
        (owners,) = [check for check in checks if check["check"] == "znode ACLs"]
        assert (owners["level"], "every znode has an owner" in owners["detail"]) == ("ok", True)
