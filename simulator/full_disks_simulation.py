"""The simulation of one partition under load, on brokers whose disks fill, fail, and are mended meanwhile."""

import asyncio
from random import Random
from typing import Final

from cluster.model.errors import ApiError, PeerUnreachableError
from cluster.requests.log_dirs import OnlineLogDirRequest
from simulator.actions import Weights
from simulator.moving_replicas_simulation import LOG_DIRECTORIES, MovingReplicasSimulation
from simulator.nodes import SimulatedAgent
from simulator.replication_simulation import PARTITION, TruncationMode
from simulator.violations import CONVERGENCE, violated

_RESERVES: Final = (0, 300, 3000)
_FREE_BYTES: Final = (0, 10, 200, 1000, 5000)


class FullDisksSimulation(MovingReplicasSimulation):
    """As its base class: replicas move between three directories of each broker, and any of them may be full or sick.

    Nobody restarts a broker for it: a full one recovers by itself, a mended one is brought back by the command.
    """

    workload = "full disks"

    def __init__(self, seed: int, truncation_mode: TruncationMode) -> None:
        reserve = Random(f"full-disks/{seed}/{truncation_mode}").choice(_RESERVES)
        super().__init__(seed, truncation_mode, min_free_bytes=reserve)
        self.fills = self.returns = 0
        self._sick: set[tuple[SimulatedAgent, str]] = set()

    def weights(self) -> Weights:
        return {
            **super().weights(),
            self.fill_disk: 8,
            self.empty_disk: 8,
            self.break_disk: 3,
            self.mend_disk: 6,
        }

    async def fill_disk(self) -> None:
        """Leave a directory of an agent with little room, or none, at the place of its replica above all."""
        agent = self._random.choice(list(self.cluster.agents.values()))
        hosted = agent.hosted(PARTITION)
        log = None if hosted is None else hosted.log
        path = self._random.choice(LOG_DIRECTORIES) if log is None or self._random.random() < 0.4 else log.directory
        agent.disk.limit(path, self._random.choice(_FREE_BYTES))
        self.fills += 1

    async def empty_disk(self) -> None:
        """Make room in the directories of an agent."""
        self._empty(self._random.choice(list(self.cluster.agents.values())))

    async def break_disk(self) -> None:
        """Let a directory of a running agent fail, one at a time and never the last one."""
        agents = [agent for agent in self._running() if agent.agent is not None]
        agent = self._random.choice(agents)
        if agent.agent is not None and not self._sick and len(agent.agent.manager.logs.live_directories) > 1:
            path = self._random.choice(LOG_DIRECTORIES)
            agent.disk.break_directory(path)
            self._sick.add((agent, path))

    async def mend_disk(self) -> None:
        """Mend a sick directory, and have it brought back if its broker has noticed."""
        for agent, path in sorted(self._sick, key=lambda sick: (sick[0].name, sick[1])):
            agent.disk.mend_directory(path)
            self._sick.discard((agent, path))
            if agent.is_running:
                self.background.start(self._bring_back(agent, path))

    async def _bring_back(self, agent: SimulatedAgent, path: str) -> None:
        try:
            await self.cluster.network.call("client", agent.address, OnlineLogDirRequest(agent.id, path))
        except (ApiError, PeerUnreachableError):
            return
        self.returns += 1

    def _empty(self, agent: SimulatedAgent) -> None:
        for path in LOG_DIRECTORIES:
            agent.disk.limit(path, None)

    async def converge(self) -> None:
        for agent in self.cluster.agents.values():
            self._empty(agent)
            for path in LOG_DIRECTORIES:
                agent.disk.mend_directory(path)
        self._sick.clear()
        self.background.start(self._bring_all_back())
        await super().converge()
        try:
            await self.cluster.until(self._are_all_in_service, "all log directories in service", timeout_s=60)
        except TimeoutError as error:
            raise violated(CONVERGENCE, f"{error}") from None

    async def _bring_all_back(self) -> None:
        """Ask for every failed directory until it is back, as an operator does."""
        while not self._are_all_in_service():
            for agent in self._running():
                for path in LOG_DIRECTORIES:
                    await self._bring_back(agent, path)
            await asyncio.sleep(1)

    def _are_all_in_service(self) -> bool:
        logs = [agent.agent.manager.logs for agent in self._running() if agent.agent is not None]
        return all(not d.failure and d.shortage is None for one in logs for d in one.directories.values())
