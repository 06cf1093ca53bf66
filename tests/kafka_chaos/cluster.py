"""The cluster of the rounds: that of `klamm up --kafka`, each process a host of its own where the machine allows it."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

from kazoo.client import KazooClient

from cluster.process.local_cluster import BROKER, CONTROLLER, ZOOKEEPER, Member
from cluster.tls.contexts import client_context
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import until_all_see
from deploy.local.kafka_jars import NEWEST
from deploy.local.processes import choose_free_ports, spawn
from deploy.local.zookeeper import ServerSettings, ServerTls, prepare
from tests.chaos.network import Network
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.commands import run_klamm

CONTROLLERS: Final = 2
BROKERS: Final = 3
UNFIT: Final = 1099
"""A candidate that is not to be adopted."""
_POLL_S: Final = 0.1
HOSTS: Final = ("zookeeper", "controller-1001", "controller-1002", "broker-1", "broker-2", "broker-3")
SETTINGS: Final[dict[str, Any]] = {
    "min.insync.replicas": 2,
    "replica.lag.time.max.ms": 6000,
    "auto.create.topics.enable": False,
    "transaction.state.log.min.isr": 2,
    # The adoption says how klamm takes over, as with an operator's cluster.
    "klamm.takeover": "never",
}


class KafkaChaosCluster(LocalCluster):
    """`network`: None if all processes share the loopback interface. `secures`: whether every port has TLS."""

    network: Network | None = None
    secures = False

    @classmethod
    def create(cls, folder: Path, network: Network | None) -> "KafkaChaosCluster":
        folder.mkdir(parents=True)
        cluster = cls.create_or_open(
            folder,
            controllers=CONTROLLERS,
            brokers=BROKERS,
            kafka=NEWEST,
            settings=SETTINGS | cls.own_settings(folder),
            is_secured=cls.secures,
        )
        assert isinstance(cluster, cls)
        if network is not None:
            cluster.network = network
            for member in cluster.state.members:
                member.host = network.address(member.name)
            chroot = cluster.state.zookeeper.partition("/")[2]
            cluster.state.zookeeper = f"{cluster.members(ZOOKEEPER)[0].address}{chroot and f'/{chroot}'}"
            cluster._save()
        return cluster

    @classmethod
    def own_settings(cls, _folder: Path) -> dict[str, Any]:
        """Settings beside those of every cluster of rounds."""
        return {}

    def _command(self, member: Member) -> list[str]:
        if self.network is None:
            return super()._command(member)
        return [*self.network.prefix(member.name), *self._command_on_its_host(member)]

    def _command_on_its_host(self, member: Member) -> list[str]:
        if member.role != ZOOKEEPER:
            return super()._command(member)
        data = self.folder / "data" / member.name
        for folder in (data, self.folder / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        own = ServerSettings(host=member.host, tls=self._tls_of_zookeeper(member))
        return list(prepare(member.port, data, own).arguments)

    def _tls_of_zookeeper(self, _member: Member) -> ServerTls | None:
        return None

    # Those who work on it

    @property
    def tls(self) -> ssl.SSLContext | None:
        """With the certificate of the admin; None: without TLS."""
        return None if self.client_tls is None else client_context(self.client_tls)

    @property
    def bootstrap_of_clients(self) -> list[str]:
        """Where producers and consumers begin."""
        return [member.address for member in self.state.kafka_brokers]

    @property
    def security_of_clients(self) -> dict[str, Any]:
        """The options of aiokafka's clients for it."""
        return {}

    def options_of_operator(self, *, of_brokers: bool) -> list[str]:
        """Those of klamm's commands. `of_brokers`: with the identity of brokers and controllers."""
        return []

    @contextlib.contextmanager
    def znodes(self) -> Iterator[KazooClient]:
        """ZooKeeper, with the identity of brokers and controllers."""
        with plain_client(self.state.zookeeper) as zookeeper:
            yield zookeeper

    # Klamm's adoption

    async def begin(self) -> None:
        """Start everything, and adopt the brokers once one of them is the controller."""
        await asyncio.to_thread(self.start_all)
        ids = {member.id for member in self.members(BROKER)}
        addresses = [member.address for member in self.members(BROKER)]
        await until_all_see(addresses, [], lambda view: view.brokers >= ids and view.controller in ids, self.tls)
        await self.prepare()
        await self.adopt()

    async def prepare(self) -> None:
        """Prepare what the rounds need, while a broker is the controller."""

    async def adopt(self) -> None:
        """By the command; returns when every broker obeys a controller of klamm's."""
        await self._succeed("adopt", "--execute")

    async def leave(self) -> None:
        """By the command; returns when every broker obeys one of them."""
        await self._succeed("leave", "--keep")

    async def command_of_operator(self, *arguments: str) -> CompletedProcess[str]:
        """One that works on the cluster's ZooKeeper, however it ends."""
        options = ["--zookeeper", self.state.zookeeper, *self.options_of_operator(of_brokers=True)]
        return await asyncio.to_thread(run_klamm, *arguments, *options)

    async def _succeed(self, *arguments: str) -> None:
        answer = await self.command_of_operator(*arguments)
        assert answer.returncode == 0, f"klamm {arguments[0]}: {answer.stdout}{answer.stderr}"

    def security_of_unfit(self) -> dict[str, str]:
        """What the listeners of `unfit_candidate` speak."""
        return {"listener.security.protocol.map": "OTHER:PLAINTEXT"}

    @contextlib.asynccontextmanager
    async def unfit_candidate(self) -> AsyncIterator[None]:
        """Within it a third candidate runs, on the host of the first, whose listener for brokers none of them has."""
        like = self.members(CONTROLLER)[0]
        name = f"controller-{UNFIT}"
        data, ports = self.folder / "data" / name, choose_free_ports(4)
        listen, control, metrics, kafka = (f"{like.host}:{port}" for port in ports)
        overrides = {
            "klamm.kafka.listeners": f"OTHER://{kafka}",
            **self.security_of_unfit(),
            "inter.broker.listener.name": "OTHER",
            "klamm.state.change.log.dir": str(data / "state-changes"),
        }
        options = ["--id", str(UNFIT), "--listen", listen, "--control-listen", control, "--metrics-listen", metrics]
        options += ["--data", str(data)]
        for key, value in overrides.items():
            options += ["--override", f"{key}={value}"]
        log = self.folder / "logs" / f"{name}.log"
        process = spawn([*self._command(like), *options], log=log, folder=self.folder, environment=os.environ)
        try:
            with self.znodes() as zookeeper:
                while zookeeper.exists(f"/controllers/ids/{UNFIT}") is None:
                    assert process.poll() is None, f"{name} ended with code {process.returncode}"
                    await asyncio.sleep(_POLL_S)
            yield
        finally:
            # It ends its session, so that nobody finds it registered any more; `adopt` would refuse on account of it.
            process.terminate()
            await asyncio.to_thread(process.wait)
