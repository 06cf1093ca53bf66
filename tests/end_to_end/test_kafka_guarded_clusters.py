"""Secured clusters of Apache Kafka under klamm: certificates, access control lists, and ZooKeeper with TLS and owners.

While a cluster is adopted, loses its controller and a broker, and is left, a client with a valid certificate and no
rights tries everything, and is answered as a broker answers it.
"""

import asyncio
import json
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings
from deploy.local.processes import choose_free_ports
from deploy.local.zookeeper import ServerSettings, ServerTls
from tests.kafka.adopted import start_printed
from tests.kafka.attacks import CLOSED, SHOWS_NOTHING, Attacker
from tests.kafka.clusters import KafkaCluster
from tests.kafka.tools import tool_command
from tests.processes.certificates import Issuer
from tests.processes.commands import run_klamm
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]
TOPIC, PARTITIONS = "orders", 6
SUPER_USERS = "User:CN=broker;User:CN=admin"
REFUSED = {"29", "30", "31", "53", "29 31", "none", "41", CLOSED}
"""Authorization failed, for one kind of resource or another; nothing to see; not the controller."""


class GuardedCluster(KafkaCluster):
    """Three brokers with a listener for one another and one for clients, both with certificates."""

    def __init__(self, folder: Path, zookeeper: str, issuer: Issuer, version: str) -> None:
        super().__init__(folder, zookeeper, version)
        self.issuer, self.folder = issuer, folder
        self.clients = dict(zip((1, 2, 3), (f"127.0.0.1:{port}" for port in choose_free_ports(3)), strict=True))
        self.own = issuer.issue("broker", subject="broker")
        self.configs = {who: self._config(who) for who in ("broker", "admin", "app", "attacker")}
        self.settings = {
            "listener.security.protocol.map": "REPLICATION:SSL,CLIENTS:SSL",
            "inter.broker.listener.name": "REPLICATION",
            "ssl.client.auth": "required",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": SUPER_USERS,
            "zookeeper.set.acl": True,
            "zookeeper.ssl.client.enable": True,
            "zookeeper.ssl.protocol": "TLSv1.3",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            **{f"{prefix}ssl.{key}": value for prefix in ("", "zookeeper.") for key, value in self._stores().items()},
        }

    def _stores(self) -> dict[str, str]:
        return {
            "keystore.type": "PEM",
            "keystore.location": str(self.own),
            "truststore.type": "PEM",
            "truststore.location": str(self.issuer.authority),
        }

    def _config(self, who: str) -> Path:
        # To brokers the URI means nothing, and so it gives no right at klamm, either.
        uri = "klamm://broker/1" if who == "attacker" else ""
        key = self.own if who == "broker" else self.issuer.issue(who, subject=who, uri=uri)
        stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": key}
        stores |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.issuer.authority}
        lines = {"security.protocol": "SSL", **stores}
        if who == "broker":
            lines |= {f"zookeeper.{key}": value for key, value in stores.items() if key.endswith("location")}
            lines |= {"zookeeper.ssl.client.enable": "true", "zookeeper.set.acl": "true"}
        path = self.issuer.folder / f"{who}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    def start_all(self) -> None:
        for id_, port in enumerate(choose_free_ports(3), start=1):
            self.brokers[id_] = f"127.0.0.1:{port}"
            self.start_one(id_)
        for id_ in self.brokers:
            eventually(lambda id_=id_: "started (kafka.server" in self.log(f"kafka-{id_}"), f"broker {id_} serves")

    def start_one(self, id_: int) -> None:
        listeners = f"REPLICATION://{self.brokers[id_]},CLIENTS://{self.clients[id_]}"
        self.start_broker(id_, {**self.settings, "listeners": listeners})

    def tls(self, who: str) -> ssl.SSLContext:
        own = TlsSettings(
            keystore_location=str(self.issuer.folder / f"{who}.pem"), truststore_location=str(self.issuer.authority)
        )
        return client_context(own)

    def tool(self, name: str, *arguments: str, who: str = "admin", code: int = 0) -> str:
        options = ("--bootstrap-server", ",".join(self.clients.values()), "--command-config", str(self.configs[who]))
        command = tool_command(self.version, name, (*options, *arguments), self.folder)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode == 0) == (code == 0), done.stdout + done.stderr
        return done.stdout

    def adopt(self, *options: str, code: int = 0) -> Any:
        config = ("--command-config", str(self.configs["broker"]))
        answer = run_klamm("adopt", "--zookeeper", self.zookeeper, "-o", "json", *config, *options)
        assert answer.returncode == code, answer.stdout + answer.stderr
        return json.loads(answer.stdout)

    def controller(self) -> int:
        return int(self.adopt()["controller"])


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path / "certificates")


@pytest.fixture
def zookeeper_with_tls(tmp_path: Path, issuer: Issuer) -> Iterator[str]:
    keystore = issuer.issue("zookeeper", subject="zookeeper")
    settings = ServerSettings(tick_time_ms=500, tls=ServerTls(keystore, issuer.authority))
    with EmbeddedZooKeeper(tmp_path / "zookeeper", settings=settings) as server:
        yield server.address


class Load:
    """A producer that may write, and how many of its records were acknowledged."""

    def __init__(self, cluster: GuardedCluster) -> None:
        self._cluster, self.acknowledged, self.gap_s = cluster, 0, 0.0

    async def run(self) -> None:
        brokers = ",".join(self._cluster.clients.values())
        producer = AIOKafkaProducer(
            bootstrap_servers=brokers,
            acks="all",
            enable_idempotence=True,
            security_protocol="SSL",
            ssl_context=self._cluster.tls("app"),
        )
        async with producer:
            last = time.monotonic()
            while True:
                number = self.acknowledged
                await producer.send_and_wait(TOPIC, str(number).encode(), partition=number % PARTITIONS)
                now = time.monotonic()
                self.acknowledged, self.gap_s, last = self.acknowledged + 1, max(self.gap_s, now - last), now
                await asyncio.sleep(0.02)

    async def stored(self) -> list[int]:
        """The numbers that are stored, as often as each is."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=",".join(self._cluster.clients.values()),
            security_protocol="SSL",
            ssl_context=self._cluster.tls("app"),
        )
        async with consumer:
            partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            await consumer.seek_to_beginning()
            found: list[int] = []
            while len(found) < sum(ends.values()):
                batches = await consumer.getmany(timeout_ms=1000)
                found += [int(record.value) for batch in batches.values() for record in batch]
            return sorted(found)


class Siege:
    """Attacks without end at every node; `let_in`: what was not refused."""

    def __init__(self, cluster: GuardedCluster) -> None:
        folder = cluster.issuer.folder
        self.attacker = Attacker(folder / "attacker.pem", cluster.issuer.authority)
        self.addresses = [*cluster.clients.values(), *cluster.brokers.values()]
        self.let_in: set[str] = set()
        self.rounds = 0

    async def run(self) -> None:
        while True:
            for address in list(self.addresses):
                for name, errors in (await self.attacker.errors(address, TOPIC)).items():
                    if errors not in REFUSED or (errors == "none" and name not in SHOWS_NOTHING):
                        self.let_in.add(f"{address} {name}: {errors}")
            self.rounds += 1
            await asyncio.sleep(0.1)


async def during(work: Callable[[], Awaitable[None]], *beside: Awaitable[None]) -> None:
    """Do the work; what runs beside it must not end before."""
    tasks = [asyncio.ensure_future(one) for one in beside]
    main = asyncio.ensure_future(work())
    try:
        await asyncio.wait([main, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        await main
    finally:
        for task in [main, *tasks]:
            task.cancel()
        await asyncio.gather(main, *tasks, return_exceptions=True)


@pytest.mark.rule("D-83", "D-115", "D-116")
@pytest.mark.parametrize("version", ["3.9.1"])
def test_no_right_is_widened_while_a_guarded_cluster_is_adopted_and_left(
    tmp_path: Path, issuer: Issuer, zookeeper_with_tls: str, version: str
) -> None:
    cluster = GuardedCluster(tmp_path, zookeeper_with_tls, issuer, version)
    try:
        cluster.start_all()
        cluster.tool("topics", "--create", "--topic", TOPIC, "--partitions", "6", "--replication-factor", "3")
        cluster.tool("acls", "--add", "--allow-principal", "User:CN=app", "--producer", "--topic", TOPIC)
        cluster.tool("acls", "--add", "--allow-principal", "User:CN=app", "--consumer", "--topic", TOPIC, "--group=g")
        asyncio.run(_besieged(cluster, tmp_path))
    finally:
        cluster.end()


async def _besieged(cluster: GuardedCluster, folder: Path) -> None:
    load, siege = Load(cluster), Siege(cluster)
    by_broker = await siege.attacker.errors(cluster.clients[await asyncio.to_thread(cluster.controller)], TOPIC)

    async def work() -> None:
        await _work(cluster, folder, siege, by_broker)

    await during(work, load.run(), siege.run())
    print(f"acknowledged {load.acknowledged}, longest gap {load.gap_s:.1f} s, {siege.rounds} rounds of attacks")
    assert siege.let_in == set()
    assert siege.rounds > 1
    stored = await load.stored()
    print(f"stored {len(stored)}, the last ones {stored[-3:]}")
    # Each once; that after the last acknowledged one may have been on its way when the producer was stopped.
    assert stored == list(range(len(stored)))
    assert len(stored) - load.acknowledged in {0, 1}
    topics = await asyncio.to_thread(cluster.tool, "topics", "--list")
    assert set(topics.split()) == {TOPIC, "by-admin", "by-klamm"}


async def _work(cluster: GuardedCluster, folder: Path, siege: Siege, by_broker: Any) -> None:
    def in_thread(call: Callable[..., Any], *arguments: Any, **named: Any) -> Awaitable[Any]:
        return asyncio.to_thread(call, *arguments, **named)

    found = await in_thread(cluster.adopt)
    assert found["refusals"] == []
    files = {
        "KEY-AND-CERTIFICATE.pem": str(cluster.own),
        "AUTHORITIES.pem": str(cluster.issuer.authority),
        "SUPER-USERS": SUPER_USERS,
    }
    ids = [start_printed(cluster, command, files, folder) for command in found["commands"]]
    for id_ in ids:
        await in_thread(eventually, lambda id_=id_: "Waiting for 'klamm adopt" in cluster.log(f"controller-{id_}"), id_)
    taken = (await in_thread(cluster.adopt, "--execute"))["took_over"]
    active = taken["controller"]
    assert set(taken["obeyed_by"].values()) == {active}
    listeners = {id_: kafka_listeners(cluster, id_) for id_ in ids}
    siege.addresses += [address for of_one in listeners.values() for address in of_one.values()]
    assert await siege.attacker.errors(listeners[active]["CLIENTS"], TOPIC) == by_broker
    await in_thread(
        cluster.tool, "topics", "--create", "--topic", "by-admin", "--partitions", "3", "--replication-factor", "3"
    )
    described = await in_thread(
        cluster.tool, "configs", "--describe", "--entity-type", "topics", "--entity-name", TOPIC
    )
    assert TOPIC in described
    await in_thread(cluster.tool, "topics", "--delete", "--topic", "by-admin", who="attacker", code=1)
    grpc = printed_address(cluster, active, "listen")
    where = ("--bootstrap", grpc, "--command-config")
    made = await in_thread(
        run_klamm, "topics", "create", "by-klamm", "--partitions", "1", *where, str(cluster.configs["admin"])
    )
    assert made.returncode == 0, made.stderr
    refused = await in_thread(run_klamm, "topics", "delete", TOPIC, "--yes", *where, str(cluster.configs["attacker"]))
    assert refused.returncode == 1, refused.stderr
    # The controller dies, and then a broker.
    await in_thread(cluster.kill, f"controller-{active}")
    await in_thread(eventually, lambda: cluster.controller() not in (active, -1), "another controller is active")
    cluster.kill("kafka-3")
    siege.addresses.remove(cluster.clients[3])
    siege.addresses.remove(cluster.brokers[3])
    partitions = ("topics", "--describe", "--topic", TOPIC)
    await in_thread(eventually, lambda: "Leader: 3" not in cluster.tool(*partitions), "broker 3 leads nothing")
    assert "Leader: none" not in await in_thread(cluster.tool, *partitions)
    await in_thread(cluster.start_one, 3)
    await in_thread(
        eventually, lambda: cluster.tool(*partitions, "--under-replicated-partitions").strip() == "", "all in sync"
    )
    left = await in_thread(
        run_klamm, "leave", "--zookeeper", cluster.zookeeper, "--command-config", str(cluster.configs["broker"])
    )
    assert left.returncode == 0, left.stderr
    assert await in_thread(cluster.controller) in cluster.brokers
    assert await siege.attacker.errors(cluster.clients[await in_thread(cluster.controller)], TOPIC) == by_broker


def kafka_listeners(cluster: GuardedCluster, id_: int) -> dict[str, str]:
    """Listener -> address, as the controller logs them."""
    for line in cluster.log(f"controller-{id_}").splitlines():
        if "Kafka listeners started" in line:
            fields = json.loads(line)
            return {name: fields[name] for name in ("REPLICATION", "CLIENTS")}
    raise AssertionError(cluster.log(f"controller-{id_}")[-2000:])


def printed_address(cluster: GuardedCluster, id_: int, _: str) -> str:
    """Where its gRPC listener is, by its registration."""
    candidates = cluster.adopt()["controllers"]
    return next(one["address"] for one in candidates if one["id"] == id_)


assert KafkaError, "what a producer may raise"
