"""Brokers of Apache Kafka with TLS on their only listener under klamm, and brokers with SASL, which are refused."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Certificates, make_certificates
from tests.commands import run_klamm
from tests.kafka_clusters import KafkaCluster
from tests.kafka_tools import tool_command
from tests.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]

KLAMM = 901
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


@pytest.mark.rule("D-89")
@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_brokers_with_tls_are_adopted_and_governed(tmp_path: Path, zookeeper: str, client_auth: str) -> None:
    """With `required` brokers ask for certificates, and klamm does so too."""
    of_both = {**ssl_settings(make_certificates(tmp_path)), "ssl.client.auth": client_auth}
    of_tools = tmp_path / "command.properties"
    of_tools.write_text("".join(f"{k}={v}\n" for k, v in {"security.protocol": "SSL", **of_both}.items()))
    cluster = KafkaCluster(tmp_path, zookeeper)
    try:
        cluster.start_brokers(3, {**of_both, "security.inter.broker.protocol": "SSL"}, "SSL")
        cluster.start_candidate(KLAMM, security="SSL", **of_both, **{"inter.broker.listener.name": "SSL"})
        taken = adopt(cluster, "--execute", "--command-config", str(of_tools))["took_over"]
        assert set(taken["obeyed_by"].values()) == {KLAMM}
        at = ("--bootstrap-server", cluster.brokers[1], "--command-config", str(of_tools), "--topic", "t")
        tool(cluster, tmp_path, *at, "--create", "--partitions", "3", "--replication-factor", "3")
        described = (*at, "--describe")
        cluster.kill("kafka-3")
        eventually(lambda: "Leader: 3" not in tool(cluster, tmp_path, *described), "broker 3 leads nothing")
        # The same question at klamm's listener is passed on to a broker.
        asked_of_klamm = ("--bootstrap-server", cluster.controllers[KLAMM], *described[2:])
        assert "Leader: 3" not in tool(cluster, tmp_path, *asked_of_klamm)
    finally:
        cluster.end()


def test_a_cluster_on_sasl_is_refused_with_the_reason(tmp_path: Path, zookeeper: str) -> None:
    cluster = KafkaCluster(tmp_path, zookeeper)
    try:
        cluster.start_brokers(1, SASL, "SASL_PLAINTEXT")
        refusals = adopt(cluster, "--dry-run", code=3)["refusals"]
        assert refusals[0] == (
            "broker 1 has a listener with SASL (SASL_PLAINTEXT), which klamm cannot authenticate itself to yet"
        )
        assert adopt(cluster, "--execute", code=1)["took_over"] is None
    finally:
        cluster.end()
