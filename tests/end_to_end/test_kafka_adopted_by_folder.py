"""A secured cluster of Kafka brokers on this machine is adopted and left by its folder (docs/kafka-local.md)."""

import json
import subprocess
from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster
from deploy.local.kafka_jars import NEWEST
from tests.kafka.broker import kafka_class_path
from tests.kafka.tools import tool_command
from tests.processes.commands import klamm

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]


def test_it_is_adopted_and_left_and_its_user_has_the_rights_that_she_is_given(tmp_path: Path) -> None:
    kafka_class_path(NEWEST)
    folder = tmp_path / "cluster"
    sizes = ("--controllers", "2", "--brokers", "2", "--config", "klamm.takeover=never")
    try:
        klamm(folder, "up", "--kafka", NEWEST, "--secure", *sizes, "--detach")
        cluster = LocalCluster.open(folder)
        found = json.loads(klamm(folder, "adopt", "-o", "json").stdout)
        assert (found["refusals"], found["controller"]) in (([], 1), ([], 2))
        adopted = json.loads(klamm(folder, "adopt", "--execute", "-o", "json").stdout)
        assert adopted["took_over"]["controller"] in {1001, 1002}
        klamm(folder, "topics", "create", "orders", "--partitions", "1", "--replication-factor", "2")
        refused = _as_alice(cluster, "topics", "--describe", "--topic", "orders")
        assert "does not exist" in refused.stdout + refused.stderr
        rights = ("--operation", "Read", "--operation", "DescribeConfigs")
        klamm(folder, "acls", "add", "--topic", "orders", "--allow-principal", "User:alice", *rights)
        seen = _as_alice(cluster, "topics", "--describe", "--topic", "orders")
        assert "PartitionCount: 1" in seen.stdout, seen.stdout + seen.stderr
        checked = json.loads(klamm(folder, "doctor", "-o", "json").stdout)
        assert checked["problems"] == 0, checked
        klamm(folder, "leave")
        left = json.loads(klamm(folder, "adopt", "-o", "json").stdout)
        assert left["controller"] in {1, 2}
    finally:
        klamm(folder, "down")


def _as_alice(cluster: LocalCluster, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    bootstrap = (cluster.folder / "kafka-bootstrap-sasl").read_text().strip()
    options = ("--bootstrap-server", bootstrap, "--command-config", str(cluster.user_properties))
    command = tool_command(NEWEST, tool, (*options, *arguments), cluster.folder)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
