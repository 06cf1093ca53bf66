"""Brokers of Apache Kafka with TLS on their only listener under klamm, and brokers with SASL, which are refused."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.adopted import start_printed
from tests.kafka.clusters import KafkaCluster
from tests.kafka.tools import tool_command
from tests.processes.certificates import Certificates, make_certificates
from tests.processes.commands import run_klamm
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]

_PLAIN_LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";'
SASL = {
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN_LOGIN,
}


def ssl_settings(certificates: Certificates) -> dict[str, Any]:
    """Kafka's own, for clients and servers alike."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.node),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
    }


def adopt(cluster: KafkaCluster, *options: str, code: int = 0) -> Any:
    answer = run_klamm("adopt", "--zookeeper", cluster.zookeeper, "-o", "json", *options)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return json.loads(answer.stdout)


def tool(cluster: KafkaCluster, folder: Path, *arguments: str) -> str:
    """What `kafka-topics` prints, which has to succeed."""
    command = tool_command(cluster.version, "topics", arguments, folder)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SHAPES: dict[str, dict[str, Any]] = {
    "one listener": {"security.inter.broker.protocol": "SSL"},
    "certificates": {"security.inter.broker.protocol": "SSL", "ssl.client.auth": "required"},
    "certificates by listener": {
        "security.inter.broker.protocol": "SSL",
        "listener.name.ssl.ssl.client.auth": "required",
    },
    "an own name": {
        "listeners": "REPLICATION-9091://{}",
        "listener.security.protocol.map": "REPLICATION-9091:SSL",
        "inter.broker.listener.name": "REPLICATION-9091",
        "listener.name.replication-9091.ssl.client.auth": "required",
    },
}


@pytest.mark.rule("D-89", "D-115", "D-116", "D-117")
@pytest.mark.parametrize("shape", SHAPES)
def test_brokers_with_tls_are_governed_by_what_adopt_prints(tmp_path: Path, zookeeper: str, shape: str) -> None:
    """Every listener is SSL; where brokers ask for certificates, klamm does so too, and its gRPC is local."""
    settings = SHAPES[shape]
    certificates = make_certificates(tmp_path)
    of_tools = tmp_path / "command.properties"
    of_tools.write_text(
        "".join(f"{k}={v}\n" for k, v in {"security.protocol": "SSL", **ssl_settings(certificates)}.items())
    )
    cluster = KafkaCluster(tmp_path, zookeeper)
    try:
        cluster.start_brokers(3, {**ssl_settings(certificates), **settings}, "SSL")
        without = adopt(cluster, code=3)["refusals"]
        assert all(
            "name a file with the ssl.* and sasl.* settings of Kafka's tools with --command-config" in why
            for why in without
        )
        commands = adopt(cluster, "--command-config", str(of_tools))["commands"]
        asks = any("client.auth" in key for key in settings)
        assert ("--listen 127.0.0.1:9701" in commands[0]) == asks
        files = {
            "KEY-AND-CERTIFICATE.pem": str(certificates.node),
            "AUTHORITIES.pem": str(certificates.authority),
        }
        for command in commands:
            start_printed(cluster, command, files, tmp_path)
        taken = adopt(cluster, "--execute", "--command-config", str(of_tools))["took_over"]
        assert set(taken["obeyed_by"].values()) == {taken["controller"]}
        at = ("--bootstrap-server", cluster.brokers[1], "--command-config", str(of_tools), "--topic", "t")
        tool(cluster, tmp_path, *at, "--create", "--partitions", "3", "--replication-factor", "3")
        described = (*at, "--describe")
        cluster.kill("kafka-3")
        eventually(lambda: "Leader: 3" not in tool(cluster, tmp_path, *described), "broker 3 leads nothing")
        assert "Leader: none" not in tool(cluster, tmp_path, *described)
    finally:
        cluster.end()


def test_a_cluster_on_sasl_is_asked_with_its_credentials_only(tmp_path: Path, zookeeper: str) -> None:
    cluster = KafkaCluster(tmp_path, zookeeper)
    try:
        cluster.start_brokers(1, SASL, "SASL_PLAINTEXT")
        refusals = adopt(cluster, "--dry-run", code=3)["refusals"]
        assert refusals[0].startswith("broker 1 cannot be asked: no listener can be used from here: SASL_PLAINTEXT")
        assert "ssl.* and sasl.* settings of Kafka's tools with --command-config" in refusals[0]
        assert adopt(cluster, "--execute", code=1)["took_over"] is None
    finally:
        cluster.end()
