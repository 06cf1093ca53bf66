"""Under load a user's password, the authority and all certificates are replaced, ZooKeeper's too; nothing is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from admin.cli.metrics_text import read_metrics
from cluster.process.local_cluster import BROKER, CERTIFICATES, CLIENT, ZOOKEEPER, Member
from cluster.tls.authority import client, node, write_certificates, zookeeper
from cluster.tls.contexts import client_context
from cluster.tls.settings import AUTHORITY, TlsSettings
from deploy.local.zookeeper import is_serving
from tests.processes.certificates import write_secret
from tests.processes.commands import as_json, klamm, run_klamm
from tests.processes.local_clusters import eventually
from tests.processes.numbered_records import NumberedRecords
from tests.processes.outside_listeners import ClusterWithOutside, serving_outside
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]
SHORT_MS: Final = 15_000
"""For how long a connection and a session of a user last."""
SETTINGS: Final = {
    "listener.security.protocol.map": "SSL:SSL,CONTROL:SSL,METRICS:SSL,EXTERNAL:SASL_SSL",
    "listener.name.external.ssl.client.auth": "none",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "connections.max.reauth.ms": SHORT_MS,
    "klamm.tls.connection.max.age.ms": SHORT_MS,
}
_NEW_DAYS: Final = 30
"""For how long the new certificates are valid; the former ones are for a year."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterWithOutside]:
    options = {"controllers": 2, "brokers": 2, "is_secured": True, "settings": SETTINGS}
    with serving_outside(tmp_path / "c", **options) as running:
        for topic, principal in (("orders", "User:CN=alice,O=klamm"), ("payments", "User:ann")):
            klamm(running, "topics", "create", topic, "--partitions", "2", "--replication-factor", "2")
            klamm(running, "acls", "add", "--allow-principal", principal, "--producer", "--topic", topic)
        write_certificates(running.folder / CERTIFICATES, [client("alice")], days=365)
        yield running


def set_password(cluster: ClusterWithOutside, password: str) -> Path:
    """In ZooKeeper first, then in the file of the client."""
    klamm(cluster, "users", "set", "ann", stdin=f"{password}\n")
    file = cluster.folder / "ann.properties"
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="{password}";'
    lines = (
        "security.protocol=SASL_SSL",
        "sasl.mechanism=SCRAM-SHA-512",
        f"sasl.jaas.config={login}",
        f"ssl.truststore.location={cluster.folder / CERTIFICATES / AUTHORITY}",
    )
    write_secret(file, "".join(f"{line}\n" for line in lines).encode())
    return file


def is_produced(cluster: ClusterWithOutside, topic: str) -> bool:
    """Whether each partition has records: the producer has a connection, and a session, at each broker."""
    return all(found["end_offset"] > 0 for found in as_json(cluster, "topics", "offsets", topic)["partitions"])


def replaced_files(cluster: ClusterWithOutside, member: Member) -> int:
    return (cluster.folder / "logs" / f"{member.name}.log").read_text().count("TLS files replaced")


def replace_authorities(cluster: ClusterWithOutside, content: bytes) -> None:
    """Write the file that all trust, and wait until all nodes do."""
    before = {member.name: replaced_files(cluster, member) for member in cluster.state.nodes}
    write_secret(cluster.folder / CERTIFICATES / AUTHORITY, content)
    for member in cluster.state.nodes:
        eventually(lambda m=member: replaced_files(cluster, m) > before[m.name], f"{member.name} has read it")  # type: ignore[misc]


def days_left(cluster: ClusterWithOutside, member: Member) -> float:
    tls = cluster.client_tls
    assert tls is not None
    lines = read_metrics(cluster.state.metrics_of(member), TIMEOUT_S, client_context(tls)).splitlines()
    return max(float(line.split()[-1]) for line in lines if line.startswith("klamm_tls_certificates_daysleft{"))


def test_what_is_sent_meanwhile_is_acknowledged_and_there_once(cluster: ClusterWithOutside, tmp_path: Path) -> None:
    certificates, new = cluster.folder / CERTIFICATES, tmp_path / "new"
    alice = (
        "--bootstrap",
        cluster.members(BROKER)[0].address,
        "--command-config",
        str(certificates / "alice.properties"),
    )
    ann = ("--bootstrap", cluster.outside["broker-1"], "--command-config", str(set_password(cluster, "first")))
    nodes = [node(member.role, member.id) for member in cluster.state.nodes]
    [server] = cluster.members(ZOOKEEPER)
    loads = [NumberedRecords("orders", alice, 0), NumberedRecords("payments", ann, 0)]

    def zookeeper_takes(tls: TlsSettings) -> bool:
        return is_serving(server.host, server.port, tls=client_context(tls))

    try:
        for topic in ("orders", "payments"):
            eventually(lambda of=topic: is_produced(cluster, of), f"both partitions of {topic} get records")  # type: ignore[misc]
        set_password(cluster, "second")
        written = write_certificates(
            new, [*nodes, zookeeper(["127.0.0.1", "localhost"]), client("alice"), client(CLIENT)], days=_NEW_DAYS
        )
        former, authority = (certificates / AUTHORITY).read_bytes(), (new / AUTHORITY).read_bytes()
        replace_authorities(cluster, former + authority)
        new_tls = TlsSettings(
            keystore_location=str(new / f"{CLIENT}.pem"), truststore_location=str(certificates / AUTHORITY)
        )
        eventually(lambda: zookeeper_takes(new_tls), "ZooKeeper trusts both authorities")
        for file in written:
            write_secret(certificates / file.name, file.read_bytes())
        for member in cluster.state.nodes:
            eventually(
                lambda m=member: days_left(cluster, m) <= _NEW_DAYS,
                f"{member.name} has its new certificate",  # type: ignore[misc]
            )
        strict = TlsSettings(keystore_location=str(new / f"{CLIENT}.pem"), truststore_location=str(new / AUTHORITY))
        eventually(lambda: zookeeper_takes(strict), "ZooKeeper shows its new certificate")
        replace_authorities(cluster, authority)
        counts = [load.stop() for load in loads]
    finally:
        for load in loads:
            load.kill()
    for topic, numbers in zip(("orders", "payments"), counts, strict=True):
        read = klamm(cluster, "consume", topic, "--from-beginning", "--until-end").stdout.split()
        assert sorted(map(int, read)) == list(numbers), topic
        print(f"\n{len(numbers):,} records of {topic}: all acknowledged, each there once")
    assert run_klamm("cluster", "health", "--data", str(cluster.folder)).returncode in (0, 3)
