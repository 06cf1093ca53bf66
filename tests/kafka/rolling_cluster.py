"""Brokers of Apache Kafka and controllers of klamm whose settings are changed one process after the other, under load.

Clients stay at one listener without TLS, so that all that a change does to them is seen.
"""

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from aiokafka.errors import KafkaError
from kazoo.client import KazooClient

from admin.consuming.record_history import Acknowledged, RecordId
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import ErrorCode, PeerRefusesError, PeerUnreachableError
from cluster.sasl.clients import ClientCredentials
from cluster.tls.contexts import client_context
from cluster.tls.secret import Secret
from cluster.tls.settings import TlsSettings
from deploy.local.kafka_broker import STARTED
from deploy.local.kafka_clients import View, connect, view
from deploy.local.processes import choose_free_ports
from launcher.demo.kafka_load import KafkaLoad
from tests.controllers.plain_zookeeper import plain_client
from tests.integration.test_user_sessions import scram
from tests.kafka.clusters import KafkaCluster
from tests.kafka.tools import tool_command
from tests.processes.certificates import Issuer, write_secret
from tests.processes.local_clusters import eventually
from tests.timeouts import TIMEOUT_S

BROKERS: Final = (1, 2, 3)
CONTROLLERS: Final = (901, 902)
TOPIC, PARTITIONS = "orders", 6
CLIENTS: Final = "CLIENTS"
WHOLE_S: Final = 300
USER: Final = "broker"
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SASL: Final = "SASL_SSL"
_PROBE_S: Final = 0.5
_NOT_NOW: Final = {ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}


_BACK: Final = ('"event": "Controller started"', '"state": "connected"')
"""What a controller logs until it stands for election."""
_OF_JAVA: Final = ("zookeeper.clientCnxnSocket", "zookeeper.ssl.protocol")


def known_to_klamm(of_zookeeper: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a broker for its ZooKeeper, without those of its libraries."""
    return {key: value for key, value in of_zookeeper.items() if key not in _OF_JAVA}


class CountingLoad(KafkaLoad):
    """The load, and what its producers say of records that they give up. `errors`: by kind.

    It leaves most of a small machine to the processes that are restarted.
    """

    per_step = 4

    def __init__(self, bootstrap: list[str]) -> None:
        super().__init__(bootstrap, TOPIC, PARTITIONS)
        self.errors = Counter[str]()
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

    async def _await(self, future: asyncio.Future[Any], id_: RecordId) -> None:
        try:
            stored = await future
        except Exception as error:
            self._failed += 1
            self.errors[type(error).__name__] += 1
        else:
            self._acknowledged.append(Acknowledged(id_, stored.partition, stored.offset))

    async def _produce_with_one(self, name: str) -> None:
        try:
            await super()._produce_with_one(name)
        except KafkaError as error:
            self.errors[f"producer {type(error).__name__}"] += 1
            raise


class Admin:
    """Asks both controllers again and again whether a topic could be created. `errors`: answers by kind; those of a
    controller that is not active, or not there, are no errors.
    """

    def __init__(self, addresses: Callable[[], list[str]]) -> None:
        self._addresses = addresses
        self.answered, self.errors = 0, Counter[str]()

    async def run(self) -> None:
        number = 0
        while True:
            for address in self._addresses():
                number += 1
                await self._ask(address, f"probe-{number}")
            await asyncio.sleep(_PROBE_S)

    async def _ask(self, address: str, name: str) -> None:
        wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=(wanted,), timeout_ms=10_000, validate_only=True)
        try:
            connection = await connect(address)
        except PeerUnreachableError:
            return
        try:
            answer = await connection.call(request, 4, CreateTopicsResponse, timeout_s=20)
        except PeerUnreachableError:
            return
        finally:
            connection.close()
        code = ErrorCode(answer.topics[0].error_code)
        if code is ErrorCode.NONE:
            self.answered += 1
        elif code not in _NOT_NOW:
            self.errors[code.name] += 1


class RollingCluster(KafkaCluster):
    """`listeners`: of the brokers, name -> protocol; `own_listeners`: of the controllers. `of_brokers` and
    `of_controllers`: the rest of their settings. A change is in force for a process from its next start.

    `of_zookeeper`: the settings with which they connect to ZooKeeper. `is_secured`: whether there is SASL_SSL between
    brokers from the beginning.
    """

    def __init__(
        self, folder: Path, zookeeper: str, of_zookeeper: Mapping[str, Any], *, is_secured: bool = False
    ) -> None:
        super().__init__(folder, zookeeper)
        self.folder, self.of_zookeeper, self._is_secured = folder, of_zookeeper, is_secured
        self._archive = folder / "classes.jsa"
        self.issuer = Issuer(folder / "first authority")
        self.password = "of-the-beginning"
        self.mechanism = "SCRAM-SHA-512"
        self.inter_broker = self.own_inter_broker = "SECURED" if is_secured else "INTERNAL"
        between = _SASL if is_secured else "PLAINTEXT"
        self.listeners: dict[str, str] = {self.inter_broker: between, CLIENTS: "PLAINTEXT"}
        self.own_listeners = dict(self.listeners)
        self.of_brokers: dict[str, Any] = {"inter.broker.protocol.version": "2.8", "min.insync.replicas": 2}
        self.of_brokers |= {"default.replication.factor": 3, "offsets.topic.replication.factor": 3, **of_zookeeper}
        self.of_brokers |= {"zookeeper.session.timeout.ms": 18_000, "zookeeper.connection.timeout.ms": 120_000}
        self.of_controllers: dict[str, Any] = {
            "inter.broker.protocol.version": "2.8",
            "klamm.takeover": "atomic",
            "default.replication.factor": 3,
            "zookeeper.session.timeout.ms": 18_000,
            **known_to_klamm(of_zookeeper),
        }
        self.keystore, self.truststore = folder / "keystore.pem", folder / "truststore.pem"
        self._ports: dict[tuple[str, int], int] = {}
        self.use(self.issuer, [self.issuer])

    def use(self, issuer: Issuer, trusted: list[Issuer]) -> None:
        """Replace the files of certificates: those of brokers count from their next start."""
        write_secret(self.keystore, issuer.issue("node").read_bytes())
        write_secret(self.truststore, b"".join(one.authority.read_bytes() for one in trusted))

    def _login_module(self) -> str:
        own = f'username="{USER}" password="{self.password}"'
        return f"org.apache.kafka.common.security.scram.ScramLoginModule required {own};"

    async def lets_in(self, node: int, mechanism: str, password: str) -> bool:
        """Whether this broker or controller takes the user of the brokers with this password, at their listener."""
        host, _, port = self.address(self.inter_broker, node).rpartition(":")
        try:
            connection = await KafkaConnection.open(
                Endpoint(host, int(port), self.inter_broker, _SASL),
                client_id="rolling",
                timeout_s=TIMEOUT_S,
                tls=client_context(TlsSettings(truststore_location=str(self.truststore))),
                login=lambda: ClientCredentials(mechanism, USER, Secret(password)),
            )
        except PeerRefusesError:
            return False
        connection.close()
        return True

    def address(self, listener: str, node: int) -> str:
        key = listener, node
        if key not in self._ports:
            self._ports[key] = choose_free_ports(1, list(self._ports.values()))[0]
        return f"127.0.0.1:{self._ports[key]}"

    @contextmanager
    def znodes(self, certificate: Path | None = None) -> Iterator[KazooClient]:
        """ZooKeeper as whoever has this certificate sees it; None: the brokers."""
        own = str(certificate or self.of_zookeeper["zookeeper.ssl.keystore.location"])
        tls = {"certfile": own, "keyfile": own, "ca": self.of_zookeeper["zookeeper.ssl.truststore.location"]}
        with plain_client(self.zookeeper, use_ssl=True, verify_certs=True, **tls) as client:
            yield client

    def _write_users(self) -> None:
        """As an operator does before the first broker of a secured cluster starts."""
        config = {mechanism: scram(self.password, mechanism) for mechanism in MECHANISMS}
        with self.znodes() as client:
            client.create(f"/config/users/{USER}", json.dumps({"version": 1, "config": config}).encode(), makepath=True)

    def start(self, name: str, command: list[str]) -> None:
        """Start it. Broker 1 archives its classes when it is stopped: half the CPU of a start is for loading them."""
        if name.startswith("kafka-"):
            has_archive = self._archive.exists()
            if has_archive or name == f"kafka-{BROKERS[0]}":
                option = "SharedArchiveFile" if has_archive else "ArchiveClassesAtExit"
                command.insert(1, f"-XX:{option}={self._archive}")
        super().start(name, command)

    def start_all(self) -> None:
        if self._is_secured:
            self._write_users()
        for id_ in BROKERS:
            self.brokers[id_] = self.address(CLIENTS, id_)
            self.start_one(id_)
            # One after the other: a broker that starts takes all that a small machine has.
            eventually(lambda id_=id_: STARTED in self.log(f"kafka-{id_}"), f"broker {id_} serves")
        for id_ in CONTROLLERS:
            self.start_controller(id_)

    def start_one(self, id_: int) -> None:
        self.start_broker(id_, self._settings_of_broker(id_))

    def _settings_of_broker(self, id_: int) -> dict[str, Any]:
        settings = {
            **self.of_brokers,
            "listeners": ",".join(f"{name}://{self.address(name, id_)}" for name in self.listeners),
            "listener.security.protocol.map": ",".join(map(":".join, self.listeners.items())),
            "inter.broker.listener.name": self.inter_broker,
        }
        for name in self._secured(self.listeners):
            for mechanism in MECHANISMS:
                key = f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config"
                settings[key] = self._login_module()
        return settings | self._security(self.listeners)

    def start_controller(self, id_: int) -> None:
        listen, control = (self.address(name, id_) for name in ("GRPC", "GRPC_CONTROL"))
        self.controllers[id_], self.grpc[id_] = self.address(CLIENTS, id_), listen
        settings = {
            **self.of_controllers,
            "klamm.broker.protocol": "kafka",
            "klamm.kafka.listeners": ",".join(f"{name}://{self.address(name, id_)}" for name in self.own_listeners),
            "listener.security.protocol.map": ",".join(map(":".join, self.own_listeners.items())),
            "inter.broker.listener.name": self.own_inter_broker,
            **self._security(self.own_listeners),
        }
        if self._secured(self.own_listeners):
            login = self.folder / f"jaas-{id_}.conf"
            write_secret(login, f"KafkaServer {{ {self._login_module()} }};".encode())
            settings["java.security.auth.login.config"] = str(login)
        fields = {"id": id_, "zookeeper": self.zookeeper, "listen": listen, "control_listen": control}
        fields["data"] = str(self.folder / f"controller-{id_}")
        lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        lines += ["[settings]", *(f'"{key}" = {json.dumps(value)}' for key, value in settings.items())]
        path = self.folder / f"controller-{id_}.toml"
        path.write_text("\n".join(lines))
        self.start(f"controller-{id_}", [sys.executable, "-m", "controller", "--config", str(path)])

    @staticmethod
    def _secured(listeners: Mapping[str, str]) -> list[str]:
        return [name for name, protocol in listeners.items() if protocol == _SASL]

    def _security(self, listeners: Mapping[str, str]) -> dict[str, Any]:
        if not self._secured(listeners):
            return {}
        return {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
        }

    def tool(self, name: str, *arguments: str) -> str:
        """Run one of Kafka's tools at the listener of clients."""
        options = ("--bootstrap-server", ",".join(self.brokers.values()))
        command = tool_command(self.version, name, (*options, *arguments), self.folder)
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Rolling:
    """Changes a cluster one process after the other, and keeps a log of it."""

    def __init__(self, cluster: RollingCluster, load: CountingLoad, admin: Admin) -> None:
        self.cluster, self._load, self._admin = cluster, load, admin
        self.lines: list[str] = []
        self._began = time.monotonic()

    def note(self, who: str, what: str) -> None:
        errors = dict(self._load.errors + self._admin.errors)
        line = (
            f"{time.monotonic() - self._began:7.1f} s  {who:15} {what:72} acknowledged {self._load.acknowledged:7,}  "
            f"errors {errors or 'none'}"
        )
        self.lines.append(line)
        print(line, flush=True)

    async def brokers(self, what: str) -> None:
        """Restart one broker after the other, each when all replicas are in sync again."""
        for id_ in BROKERS:
            name = f"kafka-{id_}"
            await asyncio.to_thread(self.cluster.stop, name)
            log = self.cluster.log(name)
            assert "Proceeding to do an unclean shutdown" not in log, f"{name} was not shut down in order: {what}"
            before = log.count(STARTED)
            self.cluster.start_one(id_)
            await until(lambda n=name, b=before: self._serves(n, b), f"{name} serves: {what}")
            await self.until_whole(what)
            self.note(f"broker {id_}", what)

    async def _serves(self, name: str, before: int) -> bool:
        assert self.cluster.is_running(name), self.cluster.log(name)[-3000:]
        return self.cluster.log(name).count(STARTED) > before

    async def controllers(self, what: str) -> None:
        """Restart the standby, then the active controller, each when the one before stands for election."""
        [active] = await self.known_controllers()
        for id_ in sorted(CONTROLLERS, key=lambda id_: id_ == active):
            name = f"controller-{id_}"
            before = len(self.cluster.log(name))
            await asyncio.to_thread(self.cluster.stop, name)
            self.cluster.start_controller(id_)
            await until(lambda n=name, b=before: self._is_back(n, b), f"{name} stands for election: {what}")
            if id_ == active:
                await until(lambda: self._obeys_another(active), f"brokers know another controller: {what}")
            await self.until_whole(what)
            self.note(f"controller {id_}", what)

    async def _is_back(self, name: str, before: int) -> bool:
        assert self.cluster.is_running(name), self.cluster.log(name)[-3000:]
        return all(line in self.cluster.log(name)[before:] for line in _BACK)

    async def _obeys_another(self, former: int) -> bool:
        known = await self.known_controllers()
        return bool(known) and former not in known

    async def until_whole(self, what: str) -> None:
        """Wait until every broker knows the same controller of klamm, and all replicas are in sync."""
        await until(self._is_whole, f"all replicas are in sync: {what}")

    async def _is_whole(self) -> bool:
        views = await self._views()
        return len(views) == len(BROKERS) and all(map(_is_whole, views)) and len({v.controller for v in views}) == 1

    async def known_controllers(self) -> set[int]:
        return {view.controller for view in await self._views()} & set(CONTROLLERS)

    async def _views(self) -> list[View]:
        found: list[View] = []
        for address in self.cluster.brokers.values():
            try:
                found.append(await view(address, [TOPIC]))
            except PeerUnreachableError:
                continue
        return found


def _is_whole(seen: View) -> bool:
    in_sync = all(len(partition.isr_nodes) == len(BROKERS) for partition in seen.partitions)
    return seen.controller in CONTROLLERS and len(seen.partitions) == PARTITIONS and in_sync


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until it holds. Raises TimeoutError that says what did not happen."""
    try:
        async with asyncio.timeout(WHOLE_S):
            while not await holds():  # noqa: ASYNC110 - processes have no event.
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise TimeoutError(f"not within {WHOLE_S} s: {what}") from None
