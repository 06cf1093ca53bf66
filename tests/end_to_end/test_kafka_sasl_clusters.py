"""Brokers of Apache Kafka that authenticate to one another by SASL, under klamm: both sides of every connection between
the controllers and the brokers, through the death of a controller and of a broker.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.brokers import ControlledShutdownRequest, ControlledShutdownResponse
from cluster.kafka_wire.messages.data import MetadataRequest, MetadataResponse
from cluster.kafka_wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import ErrorCode, PeerRefusesError, PeerUnreachableError
from cluster.sasl.clients import ClientCredentials
from cluster.tls.contexts import client_context
from cluster.tls.secret import Secret
from cluster.tls.settings import TlsSettings
from deploy.local.kafka_broker import STARTED
from tests.controllers.plain_zookeeper import plain_client
from tests.integration.test_user_sessions import scram
from tests.kafka.clusters import KafkaCluster
from tests.processes.certificates import Certificates, make_certificates, write_secret
from tests.processes.local_clusters import eventually
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

CONTROLLERS: Final = (901, 902)
PARTITIONS: Final = 6
REAUTHENTICATE_MS: Final = 4000
ALICE: Final = "alice"


class Secured(NamedTuple):
    """What a cluster uses between its brokers."""

    version: str
    protocol: str
    mechanism: str
    has_authorizer: bool


SHAPES: Final = {
    "3.9.1 SASL_SSL SCRAM-SHA-512 AclAuthorizer": Secured("3.9.1", "SASL_SSL", "SCRAM-SHA-512", has_authorizer=True),
    "3.9.1 SASL_PLAINTEXT PLAIN": Secured("3.9.1", "SASL_PLAINTEXT", "PLAIN", has_authorizer=False),
    # Its brokers take no key in PEM form without a password.
    "2.8.2 SASL_PLAINTEXT SCRAM-SHA-256": Secured("2.8.2", "SASL_PLAINTEXT", "SCRAM-SHA-256", has_authorizer=False),
    "2.4.1 SASL_PLAINTEXT SCRAM-SHA-512": Secured("2.4.1", "SASL_PLAINTEXT", "SCRAM-SHA-512", has_authorizer=False),
}


class SaslCluster(KafkaCluster):
    """Brokers with one listener, and controllers of klamm that know what the brokers know."""

    replicas = 3
    """Of a partition; as many brokers there are."""

    def __init__(self, shape: Secured, folder: Path, zookeeper: str, certificates: Certificates) -> None:
        super().__init__(folder, zookeeper, shape.version)
        self.shape, self._certificates = shape, certificates
        self.passwords = {"broker": "of the brokers", "next": "of the brokers later", ALICE: "of alice"}
        self.user = "broker"
        """Of the brokers and controllers."""
        self._jaas = folder / "jaas.conf"

    def write_users(self) -> None:
        """As an operator does before the first broker starts."""
        with plain_client(self.zookeeper) as client:
            for user, password in self.passwords.items():
                config = {name: scram(password, name) for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")}
                body = json.dumps({"version": 1, "config": config}).encode()
                client.create(f"/config/users/{user}", body, makepath=True)

    def of_brokers(self) -> dict[str, Any]:
        """What is in server.properties."""
        shape, name = self.shape, self.shape.protocol.lower()
        settings: dict[str, Any] = {
            "security.inter.broker.protocol": shape.protocol,
            "sasl.enabled.mechanisms": shape.mechanism,
            "sasl.mechanism.inter.broker.protocol": shape.mechanism,
            f"listener.name.{name}.{shape.mechanism.lower()}.sasl.jaas.config": self.login_module(),
            "connections.max.reauth.ms": REAUTHENTICATE_MS,
            "default.replication.factor": self.replicas,
            "offsets.topic.replication.factor": 1,
            "replica.lag.time.max.ms": 10_000,
            "zookeeper.session.timeout.ms": 18_000,
        }
        if shape.has_authorizer:
            settings["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
            settings["super.users"] = "User:broker;User:next"
        return settings | self._tls("PEM")

    def of_controllers(self) -> dict[str, Any]:
        """The same, with the login in a file, and the mode without an adoption."""
        settings = {key: value for key, value in self.of_brokers().items() if "replica" not in key}
        del settings["security.inter.broker.protocol"]
        if self.shape.mechanism != "PLAIN":
            settings = {key: value for key, value in settings.items() if not key.endswith("jaas.config")}
            settings["java.security.auth.login.config"] = str(self._jaas)
            self.write_login()
        return {
            **settings,
            "klamm.takeover": "atomic",
            # Where brokers before 3.0 look for the controller when they shut down.
            "klamm.kafka.register.as.broker": self.version < "3",
            "inter.broker.listener.name": self.shape.protocol,
            "default.replication.factor": self.replicas,
        }

    def write_login(self) -> None:
        write_secret(self._jaas, f"KafkaServer {{ {self.login_module()} }};".encode())

    def login_module(self) -> str:
        kind = "plain.PlainLoginModule" if self.shape.mechanism == "PLAIN" else "scram.ScramLoginModule"
        users = "".join(f' user_{user}="{password}"' for user, password in self.passwords.items())
        own = f'username="{self.user}" password="{self.passwords[self.user]}"'
        return f"org.apache.kafka.common.security.{kind} required {own}{users if 'plain' in kind else ''};"

    def _tls(self, kind: str) -> dict[str, Any]:
        if self.shape.protocol != "SASL_SSL":
            return {}
        return {
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(self._certificates.node),
            "ssl.truststore.type": kind,
            "ssl.truststore.location": str(self._certificates.authority),
        }

    async def open(self, address: str, user: str = "", password: str | None = None) -> KafkaConnection:
        """A connection of a client to a broker or a controller."""
        host, _, port = address.rpartition(":")
        tls = TlsSettings(truststore_location=str(self._certificates.authority))
        return await KafkaConnection.open(
            Endpoint(host, int(port), self.shape.protocol, self.shape.protocol),
            client_id="test",
            timeout_s=TIMEOUT_S,
            tls=client_context(tls) if self.shape.protocol == "SASL_SSL" else None,
            login=lambda: self.credentials(user or self.user, password),
        )

    def credentials(self, user: str, password: str | None) -> ClientCredentials:
        """Those of a client. `password` None: its own."""
        given = Secret(self.passwords[user] if password is None else password)
        return ClientCredentials(self.shape.mechanism, user, given)

    def call(self, address: str, request: Any, version: int, response: Any, user: str = "") -> Any:
        async def called() -> Any:
            connection = await self.open(address, user)
            try:
                return await connection.call(request, version, response, timeout_s=TIMEOUT_S)
            finally:
                connection.close()

        return asyncio.run(called())

    def active(self) -> int | None:
        """The controller that /controller names."""
        with plain_client(self.zookeeper) as client:
            found = client.exists("/controller") and json.loads(client.get("/controller")[0])
            return found["brokerid"] if found else None

    def obeyed(self) -> set[int]:
        """The controllers that the running brokers' metadata name."""
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
        running = [address for id_, address in self.brokers.items() if f"kafka-{id_}" in self.running()]
        return {self.call(address, request, 5, MetadataResponse).controller_id for address in running}

    def running(self) -> set[str]:
        return {name for name, process in self._processes.items() if process.poll() is None}

    def create(self, topic: str, user: str = "") -> int:
        """Ask the active controller, as Kafka's clients do; the error code."""
        wanted = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=self.replicas)
        request = CreateTopicsRequest(topics=(wanted,), timeout_ms=30_000)
        active = self.active()
        assert active in self.controllers
        answer = self.call(self.controllers[active], request, 4, CreateTopicsResponse, user)
        return int(answer.topics[0].error_code)

    def states(self, topic: str) -> dict[int, dict[str, Any]]:
        with plain_client(self.zookeeper) as client:
            path = f"/brokers/topics/{topic}/partitions"
            found = {}
            for partition in range(PARTITIONS):
                if client.exists(f"{path}/{partition}/state"):
                    found[partition] = json.loads(client.get(f"{path}/{partition}/state")[0])
            return found

    def is_whole(self, topic: str, count: int | None = None) -> bool:
        """Whether every partition is led and has so many replicas in sync; None: all."""
        states, wanted = self.states(topic), self.replicas if count is None else count
        return len(states) == PARTITIONS and all(s["leader"] >= 0 and len(s["isr"]) == wanted for s in states.values())

    def restart(self, id_: int) -> None:
        """On the data that it has; returns when it serves."""
        before = self.log(f"kafka-{id_}").count(STARTED)
        self.start_broker(id_, self.of_brokers(), self.shape.protocol)
        eventually(lambda: self.log(f"kafka-{id_}").count(STARTED) > before, f"broker {id_} serves again")

    def leads(self, topic: str, broker: int) -> bool:
        return any(state["leader"] == broker for state in self.states(topic).values())


@contextmanager
def governed(shape: str, folder: Path, zookeeper: str) -> Iterator[SaslCluster]:
    cluster = SaslCluster(SHAPES[shape], folder, zookeeper, make_certificates(folder))
    try:
        cluster.write_users()
        cluster.start_brokers(3, cluster.of_brokers(), cluster.shape.protocol)
        for id_ in CONTROLLERS:
            cluster.start_candidate(id_, cluster.shape.protocol, **cluster.of_controllers())
        eventually(lambda: cluster.active() in CONTROLLERS, "klamm is the controller")
        eventually(lambda: cluster.obeyed() == {cluster.active()}, "all brokers obey klamm")
        yield cluster
    finally:
        cluster.end()


@pytest.mark.rule("D-80", "D-107")
@pytest.mark.parametrize("shape", SHAPES)
def test_brokers_that_authenticate_by_sasl_are_governed(tmp_path: Path, zookeeper: str, shape: str) -> None:
    with governed(shape, tmp_path, zookeeper) as cluster:
        assert cluster.create("t") == 0
        eventually(lambda: cluster.is_whole("t"), "all replicas are in sync")
        # Both sides authenticate again every few seconds, and none of it ends a connection.
        _reauthenticates(cluster)
        _refuses_others(cluster)
        first = cluster.active()
        cluster.kill("kafka-3")
        eventually(lambda: cluster.is_whole("t", 2) and not cluster.leads("t", 3), "broker 3 is out")
        # That it is in sync again only the leaders say, by AlterPartition from 2.7 on: they authenticate to klamm.
        cluster.restart(3)
        eventually(lambda: cluster.is_whole("t"), "broker 3 is in sync again")
        cluster.kill(f"controller-{first}")
        eventually(lambda: cluster.active() not in {None, first}, "another controller is active")
        eventually(lambda: cluster.active() in CONTROLLERS, "it is klamm's")
        eventually(lambda: cluster.obeyed() == {cluster.active()}, "all brokers obey it")
        cluster.kill("kafka-2")
        eventually(lambda: cluster.is_whole("t", 2) and not cluster.leads("t", 2), "broker 2 is out")
        # A broker that shuts down asks the controller that was elected since to take its partitions.
        cluster.stop("kafka-3")
        eventually(lambda: cluster.is_whole("t", 1) and not cluster.leads("t", 3), "broker 3 has left")
        assert "Proceeding to do an unclean shutdown" not in cluster.log("kafka-3")


def _reauthenticates(cluster: SaslCluster) -> None:
    active = cluster.active()
    log = f"controller-{active}"
    failures = cluster.log(log).count("Sending a request to a broker failed")
    connections = [cluster.log(f"kafka-{id_}").count("Failed authentication") for id_ in cluster.brokers]
    for number in range(4):
        assert cluster.create(f"again-{number}") == 0
        eventually(lambda number=number: cluster.is_whole(f"again-{number}"), "the replicas are in sync")
        asyncio.run(asyncio.sleep(REAUTHENTICATE_MS / 1000))
    assert cluster.log(log).count("Sending a request to a broker failed") == failures
    assert [cluster.log(f"kafka-{id_}").count("Failed authentication") for id_ in cluster.brokers] == connections


def _refuses_others(cluster: SaslCluster) -> None:
    """What brokers send is taken from them only, where there are rights; a wrong password from nobody."""
    active = cluster.active()
    assert active is not None
    address = cluster.controllers[active]
    with pytest.raises((PeerRefusesError, PeerUnreachableError)):
        asyncio.run(cluster.open(address, password="wrong"))
    if cluster.shape.has_authorizer:
        request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
        answer = cluster.call(address, request, 1, ControlledShutdownResponse, ALICE)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert cluster.create("of-alice", ALICE) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not cluster.states("of-alice")


def test_the_user_of_the_brokers_is_replaced_under_klamm(tmp_path: Path, zookeeper: str) -> None:
    """As operators do it with Kafka alone: first the other user, then each broker, then the old one goes.
    The controllers need no restart: they read the file at each authentication.
    """
    with governed("3.9.1 SASL_SSL SCRAM-SHA-512 AclAuthorizer", tmp_path, zookeeper) as cluster:
        assert cluster.create("t") == 0
        eventually(lambda: cluster.is_whole("t"), "all replicas are in sync")
        cluster.user = "next"
        cluster.write_login()
        for id_ in cluster.brokers:
            cluster.stop(f"kafka-{id_}")
            cluster.restart(id_)
            eventually(lambda: cluster.is_whole("t"), f"all replicas are in sync after the restart of broker {id_}")
        with plain_client(zookeeper) as client:
            client.set("/config/users/broker", b'{"version":1,"config":{}}')
            change = json.dumps({"version": 2, "entity_path": "users/broker"}).encode()
            client.create("/config/changes/config_change_", change, sequence=True)
        assert cluster.create("u") == 0
        eventually(lambda: cluster.is_whole("u"), "the replicas of the other topic are in sync")
        assert cluster.obeyed() == {cluster.active()}
        with pytest.raises((PeerRefusesError, PeerUnreachableError)):
            asyncio.run(cluster.open(cluster.brokers[1], "broker"))
