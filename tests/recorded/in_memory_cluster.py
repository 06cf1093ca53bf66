"""A cluster in one process on virtual time that a scenario can be replayed on: the real controllers and agents on the
simulator's ZooKeeper, network and disks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, nullcontext
from random import Random
from typing import Final

from msgspec import Struct

from cluster.aio.clock import WallClock
from cluster.config.settings import Settings
from cluster.model.broker import BrokerId, ControllerId
from cluster.model.errors import ErrorCode, PeerUnreachableError, StartupError
from cluster.requests.data import ProducePartition, ProduceRequest, ProduceResponse
from cluster.zookeeper.port import Delete, ZooKeeper
from simulator.cluster import VirtualClock
from simulator.network import SimulatedNetwork
from simulator.nodes import LOG_DIRECTORY, SimulatedAgent, SimulatedController, SimulatedNode
from simulator.record_batches import encode_client_batch
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.recorded.scenario import CONTROLLER_SESSION_MS, Scenario
from tests.recorded.snapshot import active_controller, leader_of

CONTROLLERS: Final = frozenset({1001, 1002})
BROKERS: Final = range(1, 6)
DEADLINE_S: Final = 90.0
POLL_S: Final = 0.02
PRODUCE_S: Final = 20.0
RETRY_S: Final = 0.1
RESTART_PAUSE_S: Final = 0.5


class World(Struct):
    """What nodes of one kind share; controllers and brokers differ in their settings."""

    seed: int
    settings: Settings
    zookeeper: SimulatedZooKeeper
    network: SimulatedNetwork
    clock: WallClock
    has_kafka_brokers: bool = False
    log_directories: Sequence[str] = (LOG_DIRECTORY,)

    def random_of(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")


class InMemoryCluster:
    """Implements `tests.recorded.engine.ClusterDriver`."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        server = SimulatedZooKeeper(Random(f"{seed}/zookeeper"))
        network = SimulatedNetwork(Random(f"{seed}/network"))
        clock = VirtualClock()
        of_brokers = Settings(**scenario.settings)
        of_controllers = Settings(**{**scenario.settings, "zookeeper.session.timeout.ms": CONTROLLER_SESSION_MS})
        self._network = network
        self._client = SimulatedZooKeeperClient(server, session_timeout_ms=CONTROLLER_SESSION_MS)
        for_controllers = World(seed, of_controllers, server, network, clock)
        for_brokers = World(seed, of_brokers, server, network, clock)
        self._controllers = {i: SimulatedController(for_controllers, ControllerId(i)) for i in sorted(CONTROLLERS)}
        self._agents = {i: SimulatedAgent(for_brokers, BrokerId(i)) for i in BROKERS}

    async def start(self) -> None:
        """Both controllers run and one is active."""
        self._client.listen(lambda event: None)
        await self._client.start_session()
        for controller in self._controllers.values():
            controller.start()
            await self._until_active()

    @property
    def zookeeper(self) -> ZooKeeper:
        return self._client

    @property
    def controllers(self) -> Set[int]:
        return CONTROLLERS

    async def restart_exited(self) -> None:
        for agent in self._agents.values():
            if _gave_up(agent):
                # What it left behind is as dead as a process that ended.
                agent.crash()
                await asyncio.sleep(RESTART_PAUSE_S)
                agent.start()

    async def start_brokers(self, racks: Mapping[int, str | None]) -> None:
        for broker, rack in sorted(racks.items()):
            self._agents[broker].rack = rack
            self._agents[broker].start()

    async def start_broker(self, broker: int, *, wipe: bool) -> None:
        if wipe:
            self._agents[broker].replace_disk()
        self._agents[broker].start()

    async def stop_broker(self, broker: int) -> None:
        await self._agents[broker].stop()

    async def kill_broker(self, broker: int) -> None:
        self._agents[broker].crash()

    async def pause_broker(self, broker: int) -> None:
        self._agents[broker].pause()

    async def resume_broker(self, broker: int) -> None:
        self._agents[broker].resume()

    def election(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def kill_controller(self) -> None:
        active = await self._active()
        self._controllers[active].crash()
        for path in (f"/controllers/ids/{active}", "/controller"):
            await self._client.multi([Delete(path)])
        await self._until_active()

    async def restart_controllers(self) -> None:
        for controller in self._controllers.values():
            if not controller.is_running:
                controller.start()

    async def pause_controller(self, *, expire: bool) -> None:
        active = await self._active()
        self._controllers[active].pause()
        if not expire:
            return
        await self._client.multi([Delete("/controller")])
        await self._until_active()

        async def session_is_gone() -> bool:
            return await self._client.exists(f"/controllers/ids/{active}") is None

        async with asyncio.timeout(DEADLINE_S):
            await _until(session_is_gone, POLL_S)

    async def resume_controllers(self) -> None:
        for controller in self._controllers.values():
            if controller.is_paused:
                controller.resume()

    async def produce(self, topic: str, partition: int, count: int, acks: str) -> int:
        """One record after the other, each tried again until it is acknowledged or the time is up."""
        acknowledged = 0
        try:
            async with asyncio.timeout(PRODUCE_S):
                for number in range(count):
                    batch = encode_client_batch(f"record {number}".encode(), 1)
                    item = ProducePartition(topic, partition, batch)
                    request = ProduceRequest(-1 if acks == "all" else int(acks), 5000, (item,))
                    await _until(lambda: self._is_acknowledged(request), RETRY_S)  # noqa: B023 (awaited at once)
                    acknowledged += 1
        except TimeoutError:
            pass
        return acknowledged

    async def _is_acknowledged(self, request: ProduceRequest) -> bool:
        item = request.partitions[0]
        leader = await leader_of(self._client, item.topic, item.partition)
        if leader is None:
            return False
        try:
            answer = await self._network.call("producer", self._agents[leader].address, request)
        except PeerUnreachableError:
            return False
        assert isinstance(answer, ProduceResponse), answer
        return answer.partitions[0].error_code is ErrorCode.NONE

    async def _active(self) -> int:
        active = await active_controller(self._client)
        assert active in CONTROLLERS, f"{active} is active"
        return active

    async def _until_active(self) -> None:
        async def someone() -> bool:
            return await active_controller(self._client) is not None

        async with asyncio.timeout(DEADLINE_S):
            await _until(someone, POLL_S)


async def _until(holds: Callable[[], Awaitable[bool]], pause_s: float) -> None:
    while not await holds():  # noqa: ASYNC110 (ZooKeeper and brokers set no event of ours)
        await asyncio.sleep(pause_s)


def _gave_up(node: SimulatedNode) -> bool:
    """Whether its process ended by itself because it could not start. Any other end is an error of the run."""
    if not node.is_running:
        return False
    task = node.incarnations[-1].task
    if task is None or not task.done():
        return False
    error = task.exception()
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, StartupError):
        return True
    raise AssertionError(f"{node.name} ended") from error
