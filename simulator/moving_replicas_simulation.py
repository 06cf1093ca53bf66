"""The simulation of one partition under load, on brokers that move their replicas between log directories meanwhile."""

from typing import Final

from cluster.requests.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from simulator.actions import Weights
from simulator.directory_checker import DirectoryChecker
from simulator.nodes import SimulatedAgent
from simulator.replication_simulation import PARTITION, ReplicationSimulation, TruncationMode
from simulator.violations import CONVERGENCE, violated
from simulator.virtual_time_loop import virtual_loop

LOG_DIRECTORIES: Final = ("/disk-1", "/disk-2", "/disk-3")


class MovingReplicasSimulation(ReplicationSimulation):
    """As its base class, with three log directories on each broker."""

    workload = "moving replicas"

    def __init__(self, seed: int, truncation_mode: TruncationMode, *, min_free_bytes: int | None = None) -> None:
        super().__init__(seed, truncation_mode, log_directories=LOG_DIRECTORIES, min_free_bytes=min_free_bytes)
        self.directories = DirectoryChecker(self.cluster, PARTITION)

    async def prepare(self) -> None:
        await super().prepare()
        virtual_loop().after_step = self._observe

    def _observe(self) -> None:
        self.checker.observe()
        self.directories.observe()

    def weights(self) -> Weights:
        return {**super().weights(), self.move_replica: 12}

    async def move_replica(self) -> None:
        """Ask a broker to move its replica to any of its log directories, maybe the one where it is."""
        running = [agent for agent in self.cluster.agents.values() if agent.is_running]
        if running:
            agent = self._random.choice(running)
            topics = (AlterReplicaLogDirTopic(PARTITION.topic, (PARTITION.partition,)),)
            request = AlterReplicaLogDirsRequest((AlterReplicaLogDir(self._random.choice(LOG_DIRECTORIES), topics),))
            self.background.start(self._ask(agent, request))

    async def _ask(self, agent: SimulatedAgent, request: AlterReplicaLogDirsRequest) -> None:
        answer = await self.cluster.network.call("client", agent.address, request)
        assert isinstance(answer, AlterReplicaLogDirsResponse), f"{agent.name} answered {answer!r}"

    async def converge(self) -> None:
        await super().converge()
        try:
            await self.cluster.until(self._are_all_moves_over, "all moves over", timeout_s=60)
        except TimeoutError as error:
            raise violated(CONVERGENCE, f"{error}") from None

    def _are_all_moves_over(self) -> bool:
        agents = (agent.agent for agent in self.cluster.agents.values())
        return not any(agent is not None and agent.manager.logs.futures.all for agent in agents)
