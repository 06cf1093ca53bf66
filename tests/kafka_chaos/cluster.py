"""The cluster of the rounds: that of `klamm up --kafka`, each process a host of its own where the machine allows it."""

import asyncio
from pathlib import Path
from typing import Any, Final

from cluster.local_cluster import BROKER, ZOOKEEPER, Member
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import until_all_see
from deploy.local.kafka_jars import NEWEST
from deploy.local.zookeeper import ServerSettings, prepare
from tests.chaos.network import Network
from tests.commands import run_klamm

CONTROLLERS: Final = 2
BROKERS: Final = 3
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
    """`network`: None if all processes share the loopback interface."""

    network: Network | None = None

    @classmethod
    def create(cls, folder: Path, network: Network | None) -> "KafkaChaosCluster":
        cluster = cls.create_or_open(folder, controllers=CONTROLLERS, brokers=BROKERS, kafka=NEWEST, settings=SETTINGS)
        assert isinstance(cluster, cls)
        if network is not None:
            cluster.network = network
            for member in cluster.state.members:
                member.host = network.address(member.name)
            cluster.state.zookeeper = cluster.members(ZOOKEEPER)[0].address
            cluster._save()
        return cluster

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
        return list(prepare(member.port, data, ServerSettings(host=member.host)).arguments)

    # Klamm's adoption

    async def begin(self) -> None:
        """Start everything, and adopt the brokers once one of them is the controller."""
        await asyncio.to_thread(self.start_all)
        ids = {member.id for member in self.members(BROKER)}
        addresses = [member.address for member in self.members(BROKER)]
        await until_all_see(addresses, [], lambda view: view.brokers >= ids and view.controller in ids)
        await self.adopt()

    async def adopt(self) -> None:
        """By the command; returns when every broker obeys a controller of klamm's."""
        await self._command_of_operator("adopt", "--execute")

    async def leave(self) -> None:
        """By the command; returns when every broker obeys one of them."""
        await self._command_of_operator("leave", "--keep")

    async def _command_of_operator(self, *arguments: str) -> None:
        answer = await asyncio.to_thread(run_klamm, *arguments, "--zookeeper", self.state.zookeeper)
        assert answer.returncode == 0, f"klamm {arguments[0]}: {answer.stdout}{answer.stderr}"
