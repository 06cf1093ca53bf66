"""`klamm up --secure`: every port under TLS, and certificates that are replaced while records flow."""

import asyncio
import json
import os
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from admin.cli.metrics_text import read_metrics
from cluster.model.errors import PeerUnreachableError, ZooKeeperAccessError
from cluster.process.local_cluster import BROKER, CERTIFICATES, CONTROLLER, ZOOKEEPER, Member
from cluster.requests.cluster import DescribeClusterRequest
from cluster.rpc.client import RpcClient
from cluster.tls.authority import client, node, write_certificates
from cluster.tls.contexts import client_context
from cluster.tls.live import LiveMaterial
from cluster.tls.settings import AUTHORITY, TlsSettings
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import Create, Delete, ZkError
from deploy.local.cluster import LocalCluster
from deploy.local.zookeeper import is_serving
from tests.processes.commands import LAUNCHER, as_json, klamm, run_klamm
from tests.processes.local_clusters import eventually, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "c"
    with serving_cluster(folder, controllers=2, brokers=2, is_secured=True) as running:
        klamm(running, "topics", "create", "orders", "--partitions", "2", "--replication-factor", "2")
        yield running


def test_no_port_answers_who_has_no_certificate(cluster: LocalCluster) -> None:
    [zookeeper] = cluster.members(ZOOKEEPER)
    assert not is_serving(zookeeper.host, zookeeper.port)
    nodes = [*cluster.members(CONTROLLER), *cluster.members(BROKER)]

    async def ask(member: Member, port: int) -> None:
        client = RpcClient()
        try:
            with pytest.raises(PeerUnreachableError, match="it speaks TLS, and this side does not"):
                await client.call(f"{member.host}:{port}", DescribeClusterRequest(), TIMEOUT_S * 1000)
        finally:
            await client.close()

    async def ask_all() -> None:
        await asyncio.gather(*(ask(member, port) for member in nodes for port in (member.port, member.control_port)))

    asyncio.run(ask_all())
    for member in nodes:
        with pytest.raises((OSError, ValueError)):
            read_metrics(f"{member.host}:{member.metrics_port}", TIMEOUT_S)
    refused = run_klamm("cluster", "describe", "--bootstrap", nodes[0].address, "--timeout", "2")
    assert refused.returncode == 1
    assert "security.protocol=SSL is not set" in refused.stderr
    assert "give --command-config FILE" in refused.stderr
    assert "certs/admin.properties in its data folder" in refused.stderr


def test_records_outlive_the_active_controller(cluster: LocalCluster) -> None:
    lines = "".join(f"{number}\n" for number in range(500))
    assert klamm(cluster, "produce", "orders", stdin=lines).stdout.split()[-1] == "500"
    active = as_json(cluster, "cluster", "describe")["controller"]["id"]
    cluster.kill(f"{CONTROLLER}-{active}")
    eventually(
        lambda: as_json(cluster, "cluster", "describe", codes=(0, 1))["controller"]["id"] not in (-1, None, active),
        "another controller is active",
    )
    cluster.start(f"{CONTROLLER}-{active}")
    read = klamm(cluster, "consume", "orders", "--from-beginning", "--until-end").stdout
    assert sorted(read.split(), key=int) == lines.split()
    # Elsewhere commands take the file; and who asked stands in the log.
    where = ("--bootstrap", cluster.members(BROKER)[0].address, "--command-config", str(cluster.client_properties))
    assert run_klamm("cluster", "health", *where).returncode in (0, 3)
    assert "User:CN=admin,O=klamm" in klamm(cluster, "story", "orders-0", "-o", "json").stdout


def test_a_client_may_do_what_rules_allow_and_nothing_else(cluster: LocalCluster) -> None:
    write_certificates(cluster.folder / CERTIFICATES, [client("alice")], days=30)
    properties = cluster.folder / CERTIFICATES / "alice.properties"
    where = ("--bootstrap", cluster.members(BROKER)[0].address, "--command-config", str(properties))

    def produced() -> subprocess.CompletedProcess[str]:
        return run_klamm("produce", "orders", *where, stdin="record\n")

    assert "no right to topic 'orders'" in produced().stderr
    refused = run_klamm("brokers", "alter", "1", "--config", "num.replica.fetchers=2", *where)
    assert "may not AlterConfigs Cluster kafka-cluster" in refused.stderr
    assert as_json(cluster, "topics", "list")["topics"] != []
    assert "orders" not in run_klamm("topics", "list", *where).stdout
    klamm(cluster, "acls", "add", "--allow-principal", "User:CN=alice,O=klamm", "--producer", "--topic", "orders")
    eventually(lambda: produced().returncode == 0, "the rule is known to every node")
    assert "orders" in run_klamm("topics", "list", *where).stdout
    (first, *_) = [r for r in as_json(cluster, "story", "orders-0")["records"] if r["kind"] == "access_rule"]
    assert (first["to_state"], first["principal"]) == ("added", "User:CN=admin,O=klamm")
    assert "by User:CN=alice,O=klamm from *" in first["reason"]
    refused = run_klamm("consume", "orders", "--from-beginning", "--until-end", *where)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no right to topic 'orders'" in refused.stderr
    log = (cluster.folder / "logs" / f"{BROKER}-1.log").read_text()
    log += (cluster.folder / "logs" / f"{BROKER}-2.log").read_text()
    assert '"principal": "User:CN=alice,O=klamm"' in log
    assert "User:CN=node" not in log, "nodes need no rules"


def test_a_user_has_its_quota_whatever_its_client_calls_itself(cluster: LocalCluster) -> None:
    write_certificates(cluster.folder / CERTIFICATES, [client("carol")], days=30)
    principal, properties = "CN=carol,O=klamm", cluster.folder / CERTIFICATES / "carol.properties"
    klamm(cluster, "acls", "add", "--allow-principal", f"User:{principal}", "--producer", "--topic", "orders")
    klamm(cluster, "users", "alter", principal, "--config", "producer_byte_rate=1000000")
    shown = as_json(cluster, "users", "describe", principal)
    assert [(quota["name"], quota["value"]) for quota in shown["configs"]] == [("producer_byte_rate", "1000000")]
    where = ("--bootstrap", cluster.members(BROKER)[0].address, "--command-config", str(properties))
    tls = cluster.client_tls
    assert tls is not None

    def is_counted() -> bool:
        run_klamm("produce", "orders", *where, stdin="record\n")
        members = cluster.members(BROKER)
        texts = [read_metrics(cluster.state.metrics_of(m), TIMEOUT_S, client_context(tls)) for m in members]
        counted = f'kafka_server_produce_byte_rate{{client_id="",user="{principal}"}}'
        return any(counted in text for text in texts)

    eventually(is_counted, "the quota and the right are known to the brokers")
    klamm(cluster, "users", "set", "ann", stdin="secret\n")
    klamm(cluster, "users", "alter", principal, "--client", "app", "--config", "request_percentage=50")
    planned = klamm(cluster, "users", "alter", principal, "--config", "consumer_byte_rate=1", "--dry-run").stdout
    assert f"user {principal}  consumer_byte_rate" in planned
    klamm(cluster, "clients", "alter", "default", "--config", "consumer_byte_rate=2000000")
    listed = as_json(cluster, "users", "list")["users"]
    assert [
        (user["user"], user["client"], [m["mechanism"] for m in user["mechanisms"]], user["configs"]) for user in listed
    ] == [
        (principal, None, [], [{"name": "producer_byte_rate", "value": "1000000"}]),
        (principal, "app", [], [{"name": "request_percentage", "value": "50"}]),
        ("ann", None, ["SCRAM-SHA-512"], []),
    ]
    of_clients = as_json(cluster, "clients", "list")["clients"]
    assert of_clients == [{"client": "<default>", "configs": [{"name": "consumer_byte_rate", "value": "2000000"}]}]
    nobody = run_klamm("users", "describe", "nobody", "--data", str(cluster.folder))
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "user nobody has neither a password nor a quota of its own" in nobody.stderr
    refused = run_klamm("users", "list", *where)
    assert "may not Describe Cluster kafka-cluster" in refused.stderr


def test_doctor_and_health_ask_the_secured_ports(cluster: LocalCluster) -> None:
    for name in (f"{BROKER}-1", f"{CONTROLLER}-1001"):
        config = cluster.folder / "config" / f"{name}.toml"
        eventually(lambda file=config: run_klamm("health", "--config", str(file)).returncode == 0, f"{name} is healthy")  # type: ignore[misc]
    found = as_json(cluster, "doctor", codes=(0, 3))["checks"]
    assert {check["level"] for check in found if check["check"] in ("zookeeper", "clock")} <= {"ok", "unknown"}


def secrets_of(cluster: LocalCluster) -> set[bytes]:
    """A line of each private key of the cluster."""
    keys = (cluster.folder / CERTIFICATES).glob("*.pem")
    found = {file.read_bytes().partition(b"PRIVATE KEY-----\n")[2].partition(b"\n")[0] for file in keys}
    return found - {b""}


def test_heads_of_logs_are_asked_of_the_secured_ports(cluster: LocalCluster) -> None:
    where = ("--bootstrap", cluster.members(BROKER)[0].address)
    ran = run_klamm("audit", "heads", *where, "--command-config", str(cluster.client_properties))
    assert ran.returncode == 0, ran.stderr
    nodes = {head["node"] for head in json.loads(ran.stdout)["heads"]}
    assert nodes >= {"broker-1", "broker-2"}


def test_top_and_bundle_ask_the_secured_ports_and_show_no_key(cluster: LocalCluster, tmp_path: Path) -> None:
    assert "event queue: " in klamm(cluster, "top", "--once").stdout
    archive = tmp_path / "bundle.tar.gz"
    klamm(cluster, "bundle", "--output", str(archive))
    secrets = secrets_of(cluster)
    assert len(secrets) >= len(cluster.state.members)
    shown = {path: path.read_bytes() for path in (cluster.folder / "logs").iterdir()}
    shown |= {path: path.read_bytes() for path in (cluster.folder / "state-changes").rglob("*") if path.is_file()}
    for member in cluster.state.members:
        assert member.process is not None
        shown[Path(member.name)] = Path(f"/proc/{member.process.pid}/cmdline").read_bytes()
    with tarfile.open(archive) as opened:
        for part in opened:
            content = opened.extractfile(part)
            if content is not None:
                shown[Path(part.name)] = content.read()
    names = [str(path) for path in shown]
    metrics = [name for name in names if "/metrics/" in name]
    assert len(metrics) == len(cluster.state.nodes), names
    for path, content in shown.items():
        assert not [secret for secret in secrets if secret in content], path
        assert "/metrics/" not in str(path) or b"klamm_tls_certificates_daysleft" in content


def test_every_znode_of_a_secured_cluster_has_an_owner(cluster: LocalCluster) -> None:
    (acls,) = [check for check in as_json(cluster, "doctor", codes=(0, 3))["checks"] if check["check"] == "znode ACLs"]
    assert (acls["level"], "every znode has an owner" in acls["detail"]) == ("ok", True)


async def test_who_has_a_clients_certificate_writes_nothing_into_zookeeper(cluster: LocalCluster) -> None:
    [server] = cluster.members(ZOOKEEPER)
    write_certificates(cluster.folder / CERTIFICATES, [client("mallory")], days=30)
    folder = cluster.folder / CERTIFICATES
    tls = TlsSettings(keystore_location=str(folder / "mallory.pem"), truststore_location=str(folder / AUTHORITY))
    limits = {"session_timeout_ms": 6_000, "connection_timeout_ms": TIMEOUT_S * 1000}
    mallory = KazooZooKeeper(server.address, **limits, tls=LiveMaterial(tls, "zookeeper"))
    mallory.listen(lambda _: None)
    await mallory.start_session()
    try:
        inner = ("", "/consumers", "/brokers", "/kafka-acl", "/config/changes", "/admin", "/controllers/ids", "/klamm")
        parents = ("", "/zookeeper", "/zookeeper/quota", *(f"/klamm{path}" for path in inner))
        for parent in parents:
            (created,) = await mallory.multi([Create(f"{parent}/mine")])
            assert created.error is ZkError.NO_AUTH, parent
        for path in ("/klamm/controller", "/klamm/brokers/ids/1", "/klamm/cluster/id", "/klamm/consumers"):
            (deleted,) = await mallory.multi([Delete(path)])
            assert deleted.error is ZkError.NO_AUTH, path
        for path in ("/klamm/config/users", "/klamm/config/brokers"):
            with pytest.raises(ZooKeeperAccessError):
                await mallory.get(path)
    finally:
        await mallory.close()


@pytest.mark.deep
def test_certificates_of_all_nodes_are_replaced_while_records_flow(cluster: LocalCluster, tmp_path: Path) -> None:
    certificates = cluster.folder / CERTIFICATES
    nodes = [*cluster.members(CONTROLLER), *cluster.members(BROKER)]
    sent = 0
    producer = subprocess.Popen(
        [*LAUNCHER, "produce", "orders", "--data", str(cluster.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert producer.stdin is not None
    try:
        subjects = [node(member.role, member.id) for member in nodes]
        for made in write_certificates(tmp_path / "new", subjects, days=30, authority=certificates):
            os.replace(made, certificates / made.name)

        def replaced(member: Member) -> bool:
            nonlocal sent
            assert producer.stdin is not None
            producer.stdin.write(b"record\n")
            producer.stdin.flush()
            sent += 1
            tls = cluster.client_tls
            assert tls is not None
            text = read_metrics(cluster.state.metrics_of(member), TIMEOUT_S, client_context(tls))
            left = next(line for line in text.splitlines() if line.startswith("klamm_tls_certificates_daysleft{"))
            return float(left.split()[-1]) < 31

        for member in nodes:
            eventually(lambda of=member: replaced(of), f"{member.name} has its new certificate")  # type: ignore[misc]
        output, _ = producer.communicate(timeout=TIMEOUT_S)
    finally:
        producer.send_signal(signal.SIGKILL)
        producer.wait()
    assert producer.returncode == 0
    assert output.split()[-1] == str(sent).encode()
    assert as_json(cluster, "cluster", "describe")["controller"]["id"] > 0


def test_refused_handshakes_do_not_fill_the_log_of_a_server(cluster: LocalCluster) -> None:
    broker = cluster.members(BROKER)[1]
    log = cluster.folder / "logs" / f"{broker.name}.log"

    async def knock(times: int) -> None:
        for _ in range(times):
            reader, writer = await asyncio.open_connection(broker.host, broker.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()

    asyncio.run(knock(50))
    assert "andshake failed" not in log.read_text()
