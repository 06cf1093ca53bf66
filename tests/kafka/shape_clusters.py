"""Starts a cluster of Kafka's brokers in one of the shapes of `tests.kafka.cluster_shapes`, with its certificates."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from adoption.broker_access import BrokerAccess
from adoption.broker_survey import connect, metadata
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from cluster.model.broker import Endpoint
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings
from deploy.local.kafka_broker import STARTED, KafkaBroker, prepare
from deploy.local.processes import choose_free_ports
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.broker import kafka_class_path
from tests.kafka.cluster_shapes import Shape
from tests.kafka.clusters import KafkaCluster
from tests.processes.certificates import PASSWORD, named
from tests.processes.local_clusters import eventually

_T = TypeVar("_T")
_TIMEOUT_S: Final = 30.0


class Files:
    """Key, certificate and authority as PEM, PKCS12 and text; RSA, as some shapes take nothing else."""

    def __init__(self, folder: Path) -> None:
        authority_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
        authority = _certificate("authority", "authority", authority_key, authority_key)
        node = _certificate("broker", "authority", key, authority_key)
        plain = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        pem, trusted = (one.public_bytes(serialization.Encoding.PEM).decode() for one in (node, authority))
        self.node, self.authority = folder / "node.pem", folder / "authority.pem"
        self.node.write_text(plain + pem)
        self.authority.write_text(trusted)
        locked = serialization.BestAvailableEncryption(PASSWORD.encode())
        node_p12, authority_p12 = folder / "node.p12", folder / "authority.p12"
        node_p12.write_bytes(pkcs12.serialize_key_and_certificates(b"node", key, node, None, locked))
        truststore = [pkcs12.PKCS12Certificate(authority, b"authority")]
        authority_p12.write_bytes(pkcs12.serialize_java_truststore(truststore, locked))
        for secret in (self.node, node_p12):
            # Others must not read a private key.
            secret.chmod(0o600)
        self.placeholders = {
            "{KEYSTORE}": str(self.node),
            "{KEYSTORE_P12}": str(node_p12),
            "{KEYSTORE_JKS}": str(node_p12),
            "{KEYSTORE2_P12}": str(node_p12),
            "{KEYSTORE_NOSAN_P12}": str(node_p12),
            "{TRUSTSTORE}": str(self.authority),
            "{TRUSTSTORE_P12}": str(authority_p12),
            "{TRUSTSTORE2_P12}": str(authority_p12),
            "{CERT_INLINE}": pem,
            "{KEY_INLINE}": plain,
            "{CA_INLINE}": trusted,
            "{PASSWORD}": PASSWORD,
        }
        self.of_commands = {"KEY-AND-CERTIFICATE.pem": str(self.node), "AUTHORITIES.pem": str(self.authority)}
        self.command_config = folder / "command.properties"
        self.command_config.write_text(
            f"security.protocol=SSL\nssl.keystore.location={self.node}\nssl.truststore.location={self.authority}\n"
        )

    @property
    def tls(self) -> ssl.SSLContext:
        return client_context(TlsSettings(keystore_location=str(self.node), truststore_location=str(self.authority)))


class ShapeCluster(KafkaCluster):
    """Two brokers of the shape, or as many as it describes one by one."""

    def __init__(self, shape: Shape, folder: Path, zookeeper: str, files: Files) -> None:
        super().__init__(folder, zookeeper, shape.release)
        self.shape, self.files = shape, files
        self.count = max(len(shape.of_broker), min(2, shape.brokers))
        self._started: set[int] = set()
        ports = choose_free_ports(3 * self.count)
        self._ports = [ports[3 * n : 3 * n + 3] for n in range(self.count)]

    def start_all(self) -> None:
        for position in range(self.count):
            self.start_one(position)

    def start_one(self, position: int) -> None:
        """For the first time, or again, on the data that it has; returns when it serves."""
        name, first, second, third = f"kafka-{position + 1}", *self._ports[position]
        folder = self._folder / name
        values = {"{HOST}": "127.0.0.1", "{PORT}": first, "{PORT2}": second, "{PORT3}": third, "{ZK}": self.zookeeper}
        given = self.shape.filled_in(position, {k: str(v) for k, v in values.items()} | self.files.placeholders)
        replicas = {"offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1}
        settings: dict[str, Any] = {**replicas, "default.replication.factor": 1, **given}
        broker = KafkaBroker(
            position + 1, first, self.zookeeper, folder / "data", folder / "logs", settings, heap_mb=256
        )
        command = prepare(broker, folder / "config", kafka_class_path(self.version))
        if "listeners" not in given:
            file = Path(command[-1])
            lines = [line for line in file.read_text().splitlines() if not line.startswith("listeners=")]
            file.write_text("\n".join(lines))
        command = [word for word in command if "preferIPv4Stack" not in word or "[::1]" not in str(given)]
        before = self.log(name).count(STARTED) if position in self._started else 0
        self._started.add(position)
        self.start(name, command)
        eventually(lambda: self.log(name).count(STARTED) > before or not self.is_running(name), f"{name} serves")
        assert self.is_running(name), self.log(name)[-2000:]

    def states(self) -> dict[str, dict[str, Any]]:
        """Partition -> its state in ZooKeeper."""
        found = {}
        with plain_client(self.zookeeper) as client:
            for topic in client.get_children("/brokers/topics"):
                path = f"/brokers/topics/{topic}/partitions"
                for partition in client.get_children(path) if client.exists(path) else ():
                    if client.exists(f"{path}/{partition}/state"):
                        found[f"{topic}-{partition}"] = json.loads(client.get(f"{path}/{partition}/state")[0])
        return found

    @property
    def replicas(self) -> int:
        """Of each topic that a test creates."""
        return self.count

    def id_of(self, position: int) -> int:
        """The id under which a broker registered, with all of them running."""
        found = self.ids()
        given = self.shape.id(position)
        return given if given in found else found[position]

    def ids(self) -> list[int]:
        """Those of brokers: before 3.0 klamm's controllers are registered beside them."""
        with plain_client(self.zookeeper) as client:
            has_controllers = client.exists("/controllers/ids") is not None
            controllers = client.get_children("/controllers/ids") if has_controllers else []
            return sorted(map(int, set(client.get_children("/brokers/ids")) - set(controllers)))

    def create(self, topic: str, replicas: int) -> None:
        """As an administrator's client does it: a broker names the controller, which is asked."""
        tls = self.files.tls
        controller: list[Endpoint] = []

        def is_named() -> bool:
            # Not right after the start of a broker.
            controller[:] = asyncio.run(_with(self._endpoint(), tls, self._controllers))
            return bool(controller)

        eventually(is_named, "the broker names the controller")
        asyncio.run(self._create(controller[0], topic, replicas))

    async def _create(self, controller: Endpoint, topic: str, replicas: int) -> None:
        ids = self.ids()[:replicas]

        async def create(connection: KafkaConnection) -> None:
            # Placed by hand: with racks on some brokers only, Kafka's own controller places nothing.
            assignments = tuple(
                CreatableReplicaAssignment(partition_index=p, broker_ids=(*ids[p % replicas :], *ids[: p % replicas]))
                for p in range(3)
            )
            wanted = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments)
            request = CreateTopicsRequest(topics=(wanted,), timeout_ms=20_000)
            answer = await connection.call(request, 4, CreateTopicsResponse, timeout_s=_TIMEOUT_S)
            assert [t.error_code for t in answer.topics] == [0], answer

        await _with(controller, self.files.tls, create)

    async def _controllers(self, connection: KafkaConnection) -> list[Endpoint]:
        """At the listener that is asked; none while the broker has not heard of one."""
        answer, asked = await metadata(connection, _TIMEOUT_S), self._endpoint()
        found = (b for b in answer.brokers if b.node_id == answer.controller_id)
        return [Endpoint(b.host, b.port, asked.listener, asked.security_protocol) for b in found]

    def _endpoint(self) -> Endpoint:
        """The first listener without SASL of the first broker, at an address of this machine."""
        with plain_client(self.zookeeper) as client:
            body = json.loads(client.get(f"/brokers/ids/{self.ids()[0]}")[0])
        protocols = body["listener_security_protocol_map"]
        for text in body["endpoints"]:
            name, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            if not protocols[name].startswith("SASL") and not host.endswith((".invalid", "-up", ".10")):
                return Endpoint(host.strip("[]"), int(port), name, protocols[name])
        raise AssertionError(body)


async def _with(endpoint: Endpoint, tls: ssl.SSLContext, ask: Callable[[KafkaConnection], Awaitable[_T]]) -> _T:
    connection = await connect(endpoint, BrokerAccess(tls), _TIMEOUT_S)
    try:
        return await ask(connection)
    finally:
        connection.close()


def _certificate(subject: str, issuer: str, key: rsa.RSAPrivateKey, issuer_key: rsa.RSAPrivateKey) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1")), x509.IPAddress(ip_address("::1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=subject == issuer, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def what_differs(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Path -> how it differs."""
    gone = dict.fromkeys(before.keys() - after.keys(), "deleted")
    new = dict.fromkeys(after.keys() - before.keys(), "created")
    return gone | new | {path: "changed" for path in before.keys() & after.keys() if before[path] != after[path]}
