"""Kafka's own kafka-acls and `klamm acls` write the same rules, and klamm obeys those of either."""

import subprocess
from pathlib import Path

import pytest

from cluster.process.local_cluster import ZOOKEEPER
from deploy.local.cluster import LocalCluster
from tests.kafka.tools import tool_command
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:root",
}


def kafka_acls(cluster: LocalCluster, folder: Path, *arguments: str) -> str:
    [zookeeper] = cluster.members(ZOOKEEPER)
    options = ("--authorizer-properties", f"zookeeper.connect={zookeeper.address}", *arguments)
    command = tool_command("3.9.1", "acls", options, folder)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
