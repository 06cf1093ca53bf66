"""A cluster of the matrix as processes: a ZooKeeper server, two of Kafka's brokers, and whoever asks them."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.data import MetadataRequest, MetadataResponse
from cluster.model.broker import Endpoint
from cluster.sasl.clients import ClientCredentials
from cluster.sasl.kerberos import KerberosLogin
from cluster.tls.contexts import client_context
from cluster.tls.secret import Secret
from cluster.tls.settings import TlsSettings
from deploy.local.kafka_broker import STARTED, KafkaBroker, prepare
from deploy.local.processes import choose_free_ports
from deploy.local.zookeeper import ServerSettings, ServerTls
from tests.controllers.plain_zookeeper import plain_client
from tests.integration.test_user_sessions import scram
from tests.kafka.broker import kafka_class_path
from tests.kafka.clusters import KafkaCluster
from tests.kafka.tools import tool_command
from tests.kafka_matrix import axes, foreign, settings
from tests.kafka_matrix.axes import Cluster
from tests.kafka_matrix.proofs import SUPER, proofs
from tests.kafka_matrix.stores import Stores
from tests.processes.certificates import write_secret
from tests.processes.kdc import REALM
from tests.processes.local_clusters import eventually
from tests.timeouts import TIMEOUT_S

_T = TypeVar("_T")
BROKERS: Final = (1, 2)
SESSION_MS: Final = 4000
_USERS: Final = "/config/users"
_EVERY: Final[dict[str, Any]] = {
    "default.replication.factor": 2,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "auto.create.topics.enable": False,
    "zookeeper.session.timeout.ms": SESSION_MS,
    "log.cleaner.enable": False,
}


class Stand(KafkaCluster):
    """Brokers 1 and 2 of the cluster; `ports`: of each, by listener."""

    def __init__(self, cluster: Cluster, folder: Path, server: EmbeddedZooKeeper, stores: Stores) -> None:
        host = settings.host(cluster)
        super().__init__(folder, server.address.replace(settings.LOOPBACK, host), cluster.release)
        self.cluster, self.folder, self.stores = cluster, folder, stores
        names = [one.name for one in settings.listeners(cluster)]
        self.ports = {id_: dict(zip(names, choose_free_ports(len(names)), strict=True)) for id_ in BROKERS}
        self.clients = settings.listeners(cluster)[-1]
        self.brokers = {id_: f"{host}:{self.ports[id_][self.clients.name]}" for id_ in BROKERS}
        self.archive = folder.parent / f"kafka-{cluster.release}.jsa"
        self.jaas = folder / "jaas.conf"
        write_secret(self.jaas, settings.jaas_of_controllers(cluster, stores).encode())
        self.adopts_with = settings.write_properties(
            folder / "adopt.properties", settings.command_config(cluster, stores, self.jaas)
        )
        self.tools_of = {
            user: settings.write_properties(folder / f"{user}.properties", settings.tool_config(cluster, stores, user))
            for user in (settings.ADMIN, settings.APP)
        }

    def start_all(self) -> None:
        """Users first, as brokers log in by them; then the brokers, side by side."""
        self._write_users()
        for id_ in BROKERS:
            self.launch(id_)
        for id_ in BROKERS:
            self.await_broker(id_, 1)

    def launch(self, id_: int) -> None:
        """For the first time, or again, on the data that it has; does not wait."""
        cluster, folder = self.cluster, self.folder / f"kafka-{id_}"
        given = _EVERY | settings.server_properties(cluster, id_, self.ports[id_], self.stores)
        broker = KafkaBroker(
            id_, 0, self.zookeeper, folder / "data", folder / "logs", given, heap_mb=256, state_change_level="INFO"
        )
        class_path = kafka_class_path(cluster.release)
        if cluster.authorizer == axes.FOREIGN:
            class_path = [*class_path, str(foreign.write_class(self.folder / "classes"))]
        command = prepare(broker, folder / "config", class_path)
        if jaas := settings.jaas_of_brokers(cluster, self.stores):
            path = self.folder / "brokers-jaas.conf"
            write_secret(path, jaas.encode())
            command.insert(1, f"-Djava.security.auth.login.config={path}")
        command.insert(1, self._class_data(id_))
        self.start(f"kafka-{id_}", command)

    def _class_data(self, id_: int) -> str:
        """The option by which broker 1 archives its classes, if the release has no archive yet, or all use it."""
        if self.archive.exists() or id_ != BROKERS[0]:
            return f"-XX:SharedArchiveFile={self.archive}" if self.archive.exists() else "-Xshare:auto"
        return f"-XX:ArchiveClassesAtExit={self.archive}"

    def write_archive(self) -> None:
        """Stop broker 1 in order, if it is to archive its classes: half the CPU of a start is for loading them."""
        if not self.archive.exists() and self.is_running(f"kafka-{BROKERS[0]}"):
            self.stop(f"kafka-{BROKERS[0]}")

    def await_broker(self, id_: int, times: int) -> None:
        name = f"kafka-{id_}"
        eventually(lambda: self.log(name).count(STARTED) >= times or not self.is_running(name), f"{name} serves")
        assert self.is_running(name), self.log(name)[-3000:]

    @contextmanager
    def znodes(self) -> Iterator[Any]:
        """ZooKeeper with the identity of the brokers."""
        options: dict[str, Any] = {}
        if self.cluster.zookeeper_tls:
            own = str(self.stores.path("zookeeper-client", "PEM"))
            authority = str(self.stores.path("authority", "PEM"))
            options = {"use_ssl": True, "certfile": own, "keyfile": own, "ca": authority, "verify_certs": True}
        elif self.cluster.zookeeper_sasl:
            options["sasl_options"] = {
                "mechanism": "DIGEST-MD5",
                "username": settings.ZOOKEEPER_USER,
                "password": settings.ZOOKEEPER_PASSWORD,
            }
        elif self.cluster.zookeeper_kerberos:
            # kazoo needs another library for that; the server's own super user sees as much.
            options["auth_data"] = [("digest", SUPER)]
        with plain_client(self.zookeeper, **options) as client:
            yield client

    def tree(self) -> dict[str, tuple[bytes, int, tuple[str, ...]]]:
        """Every znode -> its content, its session, and who may do what."""
        found = {}
        with self.znodes() as client:
            waiting = ["/"]
            while waiting:
                path = waiting.pop()
                data, stat = client.get(path)
                owners = tuple(sorted(f"{acl.id.scheme}:{acl.id.id}:{acl.perms}" for acl in client.get_acls(path)[0]))
                found[path] = (data, stat.ephemeralOwner, owners)
                children = client.get_children(path)
                waiting += [f"{path.rstrip('/')}/{name}" for name in children if (path, name) != ("/", "zookeeper")]
        return found

    def states(self, topic: str) -> list[dict[str, Any]]:
        """Of its partitions that have one."""
        with self.znodes() as client:
            path = f"/brokers/topics/{topic}/partitions"
            if client.exists(path) is None:
                return []
            of_each = [f"{path}/{number}/state" for number in client.get_children(path)]
            return [json.loads(client.get(one)[0]) for one in of_each if client.exists(one)]

    def is_whole(self, topic: str, partitions: int, replicas: int = len(BROKERS)) -> bool:
        """Whether so many partitions are led and have so many replicas in sync."""
        states = self.states(topic)
        return len(states) == partitions and all(s["leader"] > 0 and len(s["isr"]) == replicas for s in states)

    def active(self) -> int | None:
        with self.znodes() as client:
            found = client.exists("/controller") and json.loads(client.get("/controller")[0])
            return int(found["brokerid"]) if found else None

    def obeyed(self) -> set[int]:
        """The controllers that running brokers' metadata name."""
        running = [id_ for id_ in BROKERS if self.is_running(f"kafka-{id_}")]
        return {self.metadata(self.brokers[id_]).controller_id for id_ in running}

    def is_running(self, name: str) -> bool:
        return name in self._processes and super().is_running(name)

    def metadata(self, address: str) -> Any:
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
        return self.call(address, request, 5, MetadataResponse)

    def controller_address(self) -> str:
        """Of the active controller, at the listener of clients, as a broker tells it."""
        found: list[str] = []

        def is_named() -> bool:
            answer = self.metadata(next(iter(self.brokers.values())))
            found[:] = [f"{b.host}:{b.port}" for b in answer.brokers if b.node_id == answer.controller_id]
            return bool(found)

        eventually(is_named, "a broker names the controller")
        return found[0]

    def call(self, address: str, request: Message, version: int, response: type[Message], user: str = "") -> Any:
        """Ask a broker or a controller, at the listener of clients. `user`: the admin unless told."""

        async def asked(connection: KafkaConnection) -> Any:
            return await connection.call(request, version, response, timeout_s=TIMEOUT_S)

        return asyncio.run(self._with(address, user or settings.ADMIN, asked))

    async def _with(self, address: str, user: str, ask: Callable[[KafkaConnection], Awaitable[_T]]) -> _T:
        host, _, port = address.rpartition(":")
        endpoint = Endpoint(host, int(port), self.clients.name, self.clients.protocol)
        connection = await KafkaConnection.open(
            endpoint,
            client_id="matrix",
            timeout_s=TIMEOUT_S,
            tls=client_context(self.tls(user)) if self.clients.has_tls else None,
            login=partial(self._credentials, user) if self.clients.has_sasl else None,
        )
        try:
            return await ask(connection)
        finally:
            connection.close()

    def _credentials(self, user: str) -> ClientCredentials:
        match self.cluster.mechanism:
            case axes.GSSAPI:
                login = KerberosLogin(f"{user}@{REALM}", str(self.stores.keytab(user)), settings.SERVICE)
                return ClientCredentials(axes.GSSAPI, user, kerberos=login)
            case axes.OAUTHBEARER:
                return ClientCredentials(axes.OAUTHBEARER, token_file=str(self.stores.token(user)))
            case mechanism:
                return ClientCredentials(mechanism, user, Secret(settings.PASSWORDS[user]))

    def tls(self, user: str) -> TlsSettings:
        """Of a client at the listener of clients."""
        shows = self.clients.client_auth == "required"
        return TlsSettings(
            keystore_location=str(self.stores.path(user, "PEM")) if shows else None,
            truststore_location=str(self.stores.path("authority", "PEM")),
        )

    def tool(self, name: str, *arguments: str, user: str = settings.ADMIN) -> subprocess.CompletedProcess[str]:
        """One of Kafka's own tools, at the running brokers."""
        running = [self.brokers[id_] for id_ in BROKERS if self.is_running(f"kafka-{id_}")]
        options = ("--bootstrap-server", ",".join(running), "--command-config", str(self.tools_of[user]))
        command = tool_command(self.version, name, (*options, *arguments), self.folder)
        command.insert(1, self._class_data(0))
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def candidates_wait(self, ids: Sequence[int]) -> None:
        for id_ in ids:
            name = f"controller-{id_}"
            eventually(
                lambda name=name: "Waiting for 'klamm adopt" in self.log(name) or not self.is_running(name), name
            )
            assert self.is_running(name), self.log(name)[-3000:]

    def _write_users(self) -> None:
        """Of SCRAM, as an operator does before the first broker starts."""
        if not self.cluster.mechanism.startswith("SCRAM"):
            return
        acl = CREATOR_ALL_ACL if self.cluster.owners else OPEN_ACL_UNSAFE
        with self.znodes() as client:
            for path in ("/config", _USERS):
                client.create(path, b"", acl=acl)
            for user, password in settings.PASSWORDS.items():
                config = {self.cluster.mechanism: scram(password, self.cluster.mechanism)}
                body = json.dumps({"version": 1, "config": config}).encode()
                client.create(f"{_USERS}/{user}", body, acl=acl)


@contextmanager
def stand(cluster: Cluster, folder: Path) -> Iterator[Stand]:
    """The cluster, whose brokers serve."""
    stores = Stores(folder / "certificates")
    settings.issue_all(cluster, stores)
    tls = login = None
    with proofs(cluster, folder, stores):
        if cluster.zookeeper_tls:
            tls = ServerTls(stores.path("zookeeper", "PEM"), stores.path("authority", "PEM"))
        elif cluster.zookeeper_sasl or cluster.zookeeper_kerberos:
            login = folder / "zookeeper-jaas.conf"
            write_secret(login, settings.jaas_of_zookeeper(cluster, stores).encode())
        with EmbeddedZooKeeper(
            folder / "zookeeper",
            settings=ServerSettings(
                tick_time_ms=500, max_session_timeout_ms=60_000, heap_mb=128, tls=tls, login_file=login
            ),
        ) as server:
            made = Stand(cluster, folder, server, stores)
            try:
                made.start_all()
                yield made
                made.write_archive()
            finally:
                made.end()
